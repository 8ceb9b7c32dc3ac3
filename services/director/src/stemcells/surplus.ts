import { type DeletableOrphan, deletableOrphans } from "../cpi/possible-orphan.js";
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

/**
 * Returns the objects that a clean-up deletes, in the order of deletion. As in BOSH, orphaned VMs are among them without
 * `all`, too. Possible orphans without a CID cannot be deleted.
 */
export function surplusOf(
  tables: DirectorTables,
  { all, keepOrphanedDisks }: CleanUpScope,
): {
  readonly stemcells: readonly StemcellId[];
  readonly disks: readonly PersistentDisk[];
  readonly orphans: readonly DeletableOrphan[];
} {
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
  const withDisks = all && !keepOrphanedDisks;
  const disks = withDisks ? [...tables.persistentDisks.entries()] : [];
  const orphans = deletableOrphans(tables.possibleOrphans.entries());
  return {
    stemcells,
    disks: disks.filter(({ orphanedAtMs }) => orphanedAtMs !== null),
    orphans: orphans.filter(({ kind }) => kind === "vm" || withDisks),
  };
}
