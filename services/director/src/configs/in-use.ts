import type { CloudConfig } from "../specs/cloud-config.js";
import { type CpiNames, currentCpi } from "../specs/cpi-choice.js";
import type { DiskRecord } from "../store/disk.js";
import type { DirectorTables } from "../store/schema.js";

/** Counts of the objects of each az or CPI, by kind. */
type Uses = Map<string, Map<string, number>>;

/** Returns a sentence for each az that is in use and absent from the cloud configs. */
export function azsMissing(tables: DirectorTables, { azs }: Pick<CloudConfig, "azs">): string[] {
  const known = new Set(azs.map(({ name }) => name));
  const uses: Uses = new Map();
  for (const { az } of tables.instances.entries()) count(uses, az, "instances");
  // The az of a disk without deployment is that of hosts, which no cloud config needs to name.
  for (const { az, deployment } of disksOf(tables)) if (deployment !== "") count(uses, az, "disks");
  return sentences(uses, (az) => known.has(az)).map(
    ({ name, by }) => `AZ \`${name}\` is in no cloud config but has ${by}: none of them can be recreated`,
  );
}

/** Returns a sentence for each CPI that is in use and absent from the cpi-configs. */
export function cpisMissing(tables: DirectorTables, names: CpiNames): string[] {
  const uses: Uses = new Map();
  for (const { cpi, vmCid } of tables.instances.entries()) if (vmCid !== "") count(uses, cpi, "VMs");
  for (const { cpi } of disksOf(tables)) count(uses, cpi, "disks");
  for (const { cpi } of tables.snapshots.entries()) count(uses, cpi, "snapshots");
  for (const { cpi, stemcellCid } of tables.stemcells.entries()) if (stemcellCid !== "") count(uses, cpi, "stemcells");
  return sentences(uses, (cpi) => currentCpi(cpi, names) !== undefined).map(
    ({ name, by }) =>
      `CPI \`${name}\` is in no cpi-config but has ${by}: none of them can be changed or deleted until the cpi-config has this CPI again, or another CPI lists it in migrated_from`,
  );
}

function* disksOf(tables: DirectorTables): Iterable<Pick<DiskRecord, "az" | "cpi" | "deployment">> {
  yield* tables.disks.entries();
  yield* tables.persistentDisks.entries();
}

function count(uses: Uses, name: string, kind: string): void {
  // An empty name means no az, or the default CPI.
  if (name === "") return;
  const counts = uses.get(name) ?? new Map<string, number>();
  uses.set(name, counts.set(kind, (counts.get(kind) ?? 0) + 1));
}

function sentences(uses: Uses, isKnown: (name: string) => boolean): { readonly name: string; readonly by: string }[] {
  return [...uses]
    .filter(([name]) => !isKnown(name))
    .map(([name, counts]) => ({ name, by: [...counts].map(([kind, number]) => `${number} ${kind}`).join(", ") }));
}
