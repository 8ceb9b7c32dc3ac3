import { DomainError, InvalidStateError, messageOf } from "@diskmesh/domain";
import type { CpiTarget } from "../../cpi/cpi-calls.js";
import { allCpis, cpisOfStep, recorded } from "../../cpi/cpi-target.js";
import { putPossibleOrphan } from "../../cpi/make-once.js";
import { currentCpi } from "../../specs/cpi-choice.js";
import { formatInstance } from "../../store/instance.js";
import type { PersistentDisk } from "../../store/persistent-disk.js";
import type { DirectorTables } from "../../store/schema.js";
import { CODES, coded } from "../../tasks/bosh-codes.js";
import type { Planner } from "../../tasks/job.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";
import { deleteWithCpi } from "../disk-steps.js";

/** The CPI that has the disk, chosen by the dispatcher. */
const ANY_CPI: CpiTarget = { cpi: "", unknownId: true };

/** Deletes an orphaned persistent disk. A disk without a record is deleted at the CPI that has it. */
export const deleteOrphanedDisk: Planner<"delete_orphaned_disk", DiskJobContext> = (context, job, tables) => {
  const { diskCid, force = false } = job;
  const disk = orphanOf(tables, diskCid);
  const resource = disk?.diskId ?? diskCid;
  const isCpiKnown = disk !== undefined && knowsCpi(context, tables, disk.cpi);
  const ofCpis = isCpiKnown ? cpisOfStep(context, tables, disk.cpi) : { cpis: allCpis(context, tables) };
  // The dispatcher may choose the CPI only when a single record has the CID, because another CPI may have a different
  // disk with the same CID.
  const isOnlyOne = [...tables.persistentDisks.by("byCid", diskCid)].length < 2;
  const deletion = (run: TaskRun): Promise<string> => {
    if (disk === undefined) return deleteUnknown(context, run, diskCid);
    const target = isCpiKnown || !isOnlyOne ? recorded(disk) : ANY_CPI;
    return deleteKnown(context, run, disk, { target, force });
  };
  const run = (run: TaskRun) => run.stage("Deleting orphaned disks", diskCid, () => deletion(run));
  return { locks: [{ type: "disk", resource }], ...ofCpis, run };
};

/** Returns true for the default CPI and for a CPI that is still in the cpi-config. */
function knowsCpi(context: DiskJobContext, tables: DirectorTables, cpi: string): boolean {
  return cpi === "" || currentCpi(cpi, context.configs.cpi.current(tables)) !== undefined;
}

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
  const found = await deleteWithCpi(context, run, ANY_CPI, diskCid);
  return found ? `deleted disk \`${diskCid}\`` : `disk \`${diskCid}\` was already deleted`;
}

async function deleteKnown(
  context: DiskJobContext,
  run: TaskRun,
  disk: PersistentDisk,
  { target, force }: { readonly target: CpiTarget; readonly force: boolean },
): Promise<string> {
  const { diskId, diskCid } = disk;
  const failure = await deleteAt(context, run, disk, target).catch((error: unknown) => {
    run.checkpoint();
    if (!(force && error instanceof DomainError)) throw error;
    return error;
  });
  await context.tablet.transact((tx) => {
    tx.persistentDisks.delete(diskId);
    if (failure === undefined) return;
    const { cpi, az, deployment } = disk;
    const place = { cpi, az, deployment, madeFor: formatInstance(disk), reason: messageOf(failure) };
    putPossibleOrphan(context, run, tx, { token: diskId, kind: "disk", cid: diskCid, ...place });
  });
  if (failure === undefined) return `deleted disk \`${diskCid}\``;
  return `forgot disk \`${diskCid}\`, which may still exist (see ListPossibleOrphans): ${messageOf(failure)}`;
}

/** Deletes the disk, or verifies that its own CPI no longer has it. */
async function deleteAt(
  context: DiskJobContext,
  run: TaskRun,
  { cpi, diskCid }: PersistentDisk,
  target: CpiTarget,
): Promise<undefined> {
  const found = await deleteWithCpi(context, run, target, diskCid);
  if (found || target !== ANY_CPI) return;
  throw new InvalidStateError(
    `CPI \`${cpi}\` of disk \`${diskCid}\` is not in the cpi-config any more, and no other CPI has the disk: put the CPI back, or delete the disk with \`force\`, which only forgets the disk`,
    { about: { disk_cid: diskCid, cpi } },
  );
}
