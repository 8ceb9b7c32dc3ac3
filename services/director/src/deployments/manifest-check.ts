import { wantedPersistentDisk } from "../disks/persistent/persistent-disk.js";
import { ownerIn } from "../instances/recorded-deployments.js";
import { vmCloudProperties } from "../instances/vm-spec.js";
import { type Az, azNamed, type CloudConfig } from "../specs/cloud-config.js";
import { type CpiNames, cpiOfAz } from "../specs/cpi-choice.js";
import type { GroupSpec } from "../specs/instance-group.js";
import { chooseStemcell, type WantedStemcell } from "../specs/stemcell.js";
import type { DirectorTables } from "../store/schema.js";
import { type Placement, placeInstances } from "./placement.js";
import { checkNetworks, withStaticAzs } from "./static-ips.js";

/** The merged configs of the tables. */
interface CurrentConfigs {
  readonly cloud: { current(tables: DirectorTables): CloudConfig };
  readonly cpi: { current(tables: DirectorTables): CpiNames };
}

/** Returns the keys that a group lacks although BOSH requires them for VMs; "" when the group has all. */
export function missingOf({ stemcell, vmType, networks }: Pick<GroupSpec, "stemcell" | "vmType" | "networks">): string {
  const missing = [stemcell === "" && "stemcell", vmType === "" && "vm_type", networks.length === 0 && "networks"];
  return missing.filter((each) => each !== false).join(", ");
}

/** Returns the placement of the manifest's instances. */
export function place(
  tables: DirectorTables,
  deployment: string,
  groups: readonly GroupSpec[],
  { networks }: CloudConfig,
  newId: () => string,
): Placement {
  const existing = [...tables.instances.by("byDeployment", deployment)];
  const places = groups.map((group) => withStaticAzs(group, networks));
  return placeInstances(deployment, places, existing, newId);
}

/** Checks a manifest against the configs and stemcells. Throws a DomainError for the first conflict. */
export function checkManifest(
  configs: CurrentConfigs,
  tables: DirectorTables,
  wanted: {
    readonly name: string;
    readonly groups: readonly GroupSpec[];
    readonly stemcells: readonly WantedStemcell[];
  },
): void {
  const config = configs.cloud.current(tables);
  const names = configs.cpi.current(tables);
  const stemcells = [...tables.stemcells.entries()];
  const cpiByAz = new Map<Az, string>();
  const cpiOf = (az: Az): string => {
    const cpi = cpiByAz.get(az) ?? cpiOfAz(az, names);
    cpiByAz.set(az, cpi);
    return cpi;
  };
  for (const group of wanted.groups) {
    vmCloudProperties(group, {}, config);
    wantedPersistentDisk(group, config);
    const stemcell = wanted.stemcells.find(({ alias }) => alias === group.stemcell);
    const cpis = new Set(group.azs.map((az) => cpiOf(azNamed(config, az))));
    for (const cpi of cpis) if (stemcell !== undefined) chooseStemcell(stemcell, cpi, stemcells, names);
  }
  checkNetworks(wanted.name, wanted.groups, config, ownerIn(tables));
  place(tables, wanted.name, wanted.groups, config, () => "");
}
