import { DomainError, InvalidStateError, messageOf } from "@diskmesh/domain";
import { allCpis } from "../../cpi/cpi-target.js";
import { deleteObject, deleteUnknownObject } from "../../cpi/delete-object.js";
import { cpisOfDeletion, deleteUnrecorded, knowsCpi } from "../../cpi/delete-orphan.js";
import { putPossibleOrphan } from "../../cpi/make-once.js";
import { LISTED_BY } from "../../cpi/possible-orphan.js";
import { formatInstance } from "../../store/instance.js";
import type { PersistentDisk } from "../../store/persistent-disk.js";
import type { DirectorTables } from "../../store/schema.js";
import { CODES, coded } from "../../tasks/bosh-codes.js";
import type { Planner } from "../../tasks/job.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";

/** Deletes an orphaned persistent disk. A disk without a record is deleted at the CPI that has it. */
export const deleteOrphanedDisk: Planner<"delete_orphaned_disk", DiskJobContext> = (context, job, tables) => {
  const { diskCid, force = false } = job;
  const disk = orphanOf(tables, diskCid);
  const resource = disk?.diskId ?? diskCid;
  const ofCpis = disk === undefined ? { cpis: allCpis(context, tables) } : cpisOfDeletion(context, tables, disk.cpi);
  const deletion = (run: TaskRun): Promise<string> =>
    disk === undefined ? deleteUnknown(context, run, diskCid) : deleteKnown(context, run, disk, force);
  const run = (run: TaskRun) => run.stage("Deleting orphaned disks", diskCid, () => deletion(run));
  return { locks: [{ type: "disk", resource }], ...ofCpis, run };
};

/**
 * Returns the record of an orphaned disk; undefined for a disk without a record. Throws InvalidStateError for a disk in
 * use.
 */
export function orphanOf(tables: DirectorTables, diskCid: string): PersistentDisk | undefined {
  const [dynamic] = tables.disks.by("byCid", diskCid);
  if (dynamic !== undefined) {
    throw new InvalidStateError(`disk \`${diskCid}\` is the dynamic disk \`${dynamic.name}\`: delete it by its name`);
  }
  const [disk] = tables.persistentDisks.by("byCid", diskCid);
  if (disk?.orphanedAtMs === null) {
    const whose = `${disk.group}/${disk.instanceId}`;
    throw coded(
      CODES.diskInUse,
      new InvalidStateError(
        `disk \`${diskCid}\` is the persistent disk of ${whose}: remove it from the manifest first`,
        { reason: "DISK_IN_USE", about: { disk_cid: diskCid } },
      ),
    );
  }
  return disk;
}

async function deleteUnknown(context: DiskJobContext, run: TaskRun, diskCid: string): Promise<string> {
  const isFound = await deleteUnrecorded(context, run, { kind: "disk", cid: diskCid });
  return isFound ? `deleted disk \`${diskCid}\`` : `disk \`${diskCid}\` was already deleted`;
}

async function deleteKnown(
  context: DiskJobContext,
  run: TaskRun,
  disk: PersistentDisk,
  force: boolean,
): Promise<string> {
  const { diskCid } = disk;
  const mayExist = await deletePersistentDisk(context, run, disk, force);
  if (mayExist === undefined) return `deleted disk \`${diskCid}\``;
  return `forgot disk \`${diskCid}\`, which may still exist (see ${LISTED_BY.disk}): ${mayExist}`;
}

/**
 * Deletes a detached disk and its record. Returns the reason why the disk may still exist and is recorded as a possible
 * orphan; undefined when it does not. With `force` any failure is such a reason.
 */
export async function deletePersistentDisk(
  context: DiskJobContext,
  run: TaskRun,
  disk: PersistentDisk,
  force = false,
): Promise<string | undefined> {
  const { diskId, diskCid: cid, cpi, az, deployment } = disk;
  const mayExist = await deleteAt(context, run, disk).catch((error: unknown) => {
    run.checkpoint();
    if (!(force && error instanceof DomainError)) throw error;
    return messageOf(error);
  });
  await context.tablet.transact((tx) => {
    tx.persistentDisks.delete(diskId);
    if (mayExist === undefined) return;
    const place = { cpi, az, deployment, madeFor: formatInstance(disk), reason: mayExist };
    putPossibleOrphan(context, run, tx, { token: diskId, kind: "disk", cid, ...place });
  });
  return mayExist;
}

/** Deletes the disk at the CPI that has it. Throws when its own CPI cannot be asked, and no other CPI has the disk. */
async function deleteAt(
  context: DiskJobContext,
  run: TaskRun,
  { cpi, az, diskCid: cid }: PersistentDisk,
): Promise<string | undefined> {
  const object = { kind: "disk", cid, cpi, az } as const;
  if (await context.tablet.read((tables) => knowsCpi(context, tables, cpi)))
    return (await deleteObject(context, run, object)).mayExist;
  if (await deleteUnknownObject(context, run, object)) return undefined;
  throw new InvalidStateError(
    `CPI \`${cpi}\` of disk \`${cid}\` is not in the cpi-config any more, and no other CPI has the disk: put the CPI back, or forget the disk with \`bosh curl -X DELETE '/disks/${cid}?force=true'\``,
    { about: { disk_cid: cid, cpi } },
  );
}
