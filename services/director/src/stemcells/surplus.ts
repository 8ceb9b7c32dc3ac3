import { deploymentsWith } from "../instances/recorded-deployments.js";
import { compareVersions } from "../specs/stemcell.js";
import type { PersistentDisk } from "../store/persistent-disk.js";
import type { DirectorTables } from "../store/schema.js";
import type { CleanUpScope } from "../store/task.js";

/**
 * Number of unused versions of each stemcell name that a clean-up keeps unless `all` is set, because the next deploy is
 * likely to use a recent version.
 */
const KEPT_VERSIONS = 2;

type StemcellId = { readonly name: string; readonly version: string };

/** Returns the objects that a clean-up deletes, in the order of deletion. */
export function surplusOf(
  tables: DirectorTables,
  { all, keepOrphanedDisks }: CleanUpScope,
): { readonly stemcells: readonly StemcellId[]; readonly disks: readonly PersistentDisk[] } {
  const unused = new Map<string, string[]>();
  for (const stemcell of tables.stemcells.entries()) {
    const { name, version } = stemcell;
    const versions = unused.get(name) ?? [];
    unused.set(name, versions);
    if (!versions.includes(version) && deploymentsWith(tables, stemcell).length === 0) versions.push(version);
  }
  const stemcells = [...unused].flatMap(([name, versions]) => {
    const oldestFirst = versions.sort(compareVersions);
    const surplus = all ? oldestFirst : oldestFirst.slice(0, -KEPT_VERSIONS);
    return surplus.map((version) => ({ name, version }));
  });
  const disks = all && !keepOrphanedDisks ? [...tables.persistentDisks.entries()] : [];
  return { stemcells, disks: disks.filter(({ orphanedAtMs }) => orphanedAtMs !== null) };
}
