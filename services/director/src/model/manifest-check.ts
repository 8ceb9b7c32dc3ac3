import { type Az, azNamed, type CloudConfig } from "./cloud-config.js";
import { type CpiNames, cpiOfAz } from "./cpi-choice.js";
import { networkNamed } from "./networks.js";
import { wantedPersistentDisk } from "./persistent-disk.js";
import type { GroupSpec } from "./placement.js";
import { chooseStemcell, type Stemcell, type WantedStemcell } from "./stemcell.js";
import { vmCloudProperties } from "./vm-spec.js";

/** Checks what a manifest wants against the configs and stemcells there are. Throws what is wrong. */
export function checkManifest(
  wanted: { readonly groups: readonly GroupSpec[]; readonly stemcells: readonly WantedStemcell[] },
  config: CloudConfig,
  names: CpiNames,
  stemcells: readonly Stemcell[],
): void {
  const cpiByAz = new Map<Az, string>();
  const cpiOf = (az: Az): string => {
    const cpi = cpiByAz.get(az) ?? cpiOfAz(az, names);
    cpiByAz.set(az, cpi);
    return cpi;
  };
  for (const group of wanted.groups) {
    vmCloudProperties(group, {}, config);
    wantedPersistentDisk(group, config);
    for (const network of group.networks) networkNamed(config.networks, network.name);
    const stemcell = wanted.stemcells.find(({ alias }) => alias === group.stemcell);
    const cpis = new Set(group.azs.map((az) => cpiOf(azNamed(config, az))));
    for (const cpi of cpis) if (stemcell !== undefined) chooseStemcell(stemcell, cpi, stemcells, names);
  }
}
