import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { cpisOfStep, recorded } from "../../cpi/cpi-target.js";
import { coversDisk, diskIn, isNameTaken } from "../../instances/scope.js";
import type { DeletedDisk } from "../../store/deleted-disk.js";
import type { Disk } from "../../store/disk.js";
import type { DirectorTables, DirectorTransaction } from "../../store/schema.js";
import type { Scope } from "../../store/scope.js";
import type { JobOf } from "../../store/task.js";
import type { Planner } from "../../tasks/job.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";

type UndeleteJob = JobOf<"undelete_dynamic_disk">;

/**
 * Takes a deleted disk back under its name. A registry of the director's hosts brings back its data; the registry of
 * another fleet CPI has to be asked before.
 */
export const undeleteDynamicDisk: Planner<"undelete_dynamic_disk", DiskJobContext> = (context, job, tables) => {
  const { diskName, scope } = job;
  const cpis = cpisOfStep(context, tables, deletedDisk(tables, job)?.disk.cpi);
  return {
    // The lock of a disk outside of the caller's scope is not waited for.
    locks: isNameTaken(scope, tables, diskName) ? [] : [{ type: "disk", resource: diskName }],
    ...cpis,
    run: (run) => undelete(context, run, job),
  };
};

/** Remembers the record of a disk that is being deleted, in the transaction that deletes it. */
export function rememberDeleted({ clock, limits }: DiskJobContext, tx: DirectorTransaction, disk: Disk): void {
  tx.deletedDisks.put({ disk, deletedAtMs: clock.nowMs() });
  if (tx.deletedDisks.size <= limits.maxDeletedDisks) return;
  const [oldest] = [...tx.deletedDisks.entries()].sort((a, b) => a.deletedAtMs - b.deletedAtMs);
  if (oldest !== undefined) tx.deletedDisks.delete(oldest.disk.diskCid);
}

async function undelete(context: DiskJobContext, run: TaskRun, job: UndeleteJob): Promise<string> {
  const { diskName } = job;
  run.checkpoint();
  const found = await context.tablet.read((tables) => decideUndelete(tables, job));
  if (found.isThere) return `disk \`${diskName}\` is not deleted`;
  const { disk } = found;
  const { diskCid } = disk;
  await context.registries.undeleteDisk(diskCid, { signal: run.stopped });
  if (!(await context.cpi.call("hasDisk", recorded(disk), { diskCid }, run)).exists) throw notKept(disk);
  await run.stage("Taking back disk", diskName, () =>
    context.tablet.transact((tx) => {
      const again = decideUndelete(tx, job);
      if (again.isThere) return;
      tx.deletedDisks.delete(diskCid);
      tx.disks.put({ ...again.disk, state: "detached" });
    }),
  );
  return `disk \`${diskName}\` is back, detached, with the CID \`${diskCid}\``;
}

/** Returns the deleted disk that the job means: the one deleted last of that name, unless the job names its CID. */
function deletedDisk(tables: DirectorTables, { diskName, diskCid, scope }: UndeleteJob): DeletedDisk | undefined {
  const named = [...tables.deletedDisks.by("byName", diskName)].filter(({ disk }) =>
    isMeant(tables, disk, { diskCid, scope }),
  );
  return named.sort((a, b) => b.deletedAtMs - a.deletedAtMs)[0];
}

function isMeant(
  tables: DirectorTables,
  disk: Disk,
  { diskCid, scope }: { readonly diskCid: string; readonly scope?: Scope | undefined },
): boolean {
  return (diskCid === "" || disk.diskCid === diskCid) && coversDisk(scope, tables, disk);
}

/** Returns the record to restore, or that it is there already. Throws when it cannot be restored. */
function decideUndelete(
  tables: DirectorTables,
  job: Omit<UndeleteJob, "type">,
): { readonly isThere: true } | { readonly isThere: false; readonly disk: Disk } {
  const { diskName, diskCid, scope } = job;
  const about = { disk_name: diskName };
  const present = diskIn(scope, tables, diskName);
  if (present !== undefined && (diskCid === "" || present.diskCid === diskCid)) return { isThere: true };
  if (present !== undefined)
    throw new InvalidStateError(
      `the name of the deleted disk \`${diskName}\` is that of another disk now, \`${present.diskCid}\`: delete that one first`,
      { reason: "DISK_DIFFERS", about },
    );
  const disk = deletedDisk(tables, { ...job, type: "undelete_dynamic_disk" })?.disk;
  if (disk === undefined) throw new NotFoundError(`no deleted disk \`${diskName}\` is remembered`, { about });
  if (tables.disks.has(diskName))
    throw new InvalidStateError(`the name of the deleted disk \`${diskName}\` is taken by another disk now`, {
      reason: "DISK_DIFFERS",
      about,
    });
  const { deployment } = disk;
  if (deployment !== "" && tables.deployments.get(deployment) === undefined)
    throw new InvalidStateError(
      `disk \`${diskName}\` was of deployment \`${deployment}\`, which is gone: deploy that again first`,
      { about: { ...about, deployment } },
    );
  if ([...tables.disks.by("byCid", disk.diskCid), ...tables.persistentDisks.by("byCid", disk.diskCid)].length > 0)
    throw new InvalidStateError(`the CID \`${disk.diskCid}\` of disk \`${diskName}\` is that of another disk now`, {
      reason: "DISK_DIFFERS",
      about,
    });
  return { isThere: false, disk };
}

function notKept({ name, diskCid, cpi }: Disk): Error {
  const whose = cpi === "" ? "the default CPI" : `CPI \`${cpi}\``;
  return new NotFoundError(
    `${whose} has no disk \`${diskCid}\` any more: only the registry of a fleet CPI keeps deleted disks, and for the time that its config has`,
    { about: { disk_name: name, disk_cid: diskCid } },
  );
}
