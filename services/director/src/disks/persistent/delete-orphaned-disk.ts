import { InvalidStateError } from "@diskmesh/domain";
import { allCpis, cpisOfStep, recorded } from "../../cpi/cpi-target.js";
import type { PersistentDisk } from "../../store/persistent-disk.js";
import type { DirectorTables } from "../../store/schema.js";
import { CODES, coded } from "../../tasks/bosh-codes.js";
import type { Planner } from "../../tasks/job.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";
import { deleteWithCpi } from "../disk-steps.js";

/** Deletes a persistent disk that no instance has; one that nobody knows, with whatever CPI has it. */
export const deleteOrphanedDisk: Planner<"delete_orphaned_disk", DiskJobContext> = (context, { diskCid }, tables) => {
  const disk = orphanOf(tables, diskCid);
  const resource = disk?.diskId ?? diskCid;
  const ofCpis = disk === undefined ? { cpis: allCpis(context, tables) } : cpisOfStep(context, tables, disk.cpi);
  return { locks: [{ type: "disk", resource }], ...ofCpis, run: (run) => deleteOrphan(context, run, diskCid, disk) };
};

/** Undefined for a disk that nobody knows. Throws InvalidStateError for one that is in use. */
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
        { about: { disk_cid: diskCid } },
      ),
    );
  }
  return disk;
}

async function deleteOrphan(
  context: DiskJobContext,
  run: TaskRun,
  diskCid: string,
  disk: PersistentDisk | undefined,
): Promise<string> {
  return run.stage("Deleting orphaned disks", diskCid, async () => {
    const target = disk === undefined ? { cpi: "", unknownId: true } : recorded(disk);
    const found = await deleteWithCpi(context, run, target, diskCid);
    if (disk !== undefined) await context.tablet.transact((tx) => tx.persistentDisks.delete(disk.diskId));
    return found || disk !== undefined ? `deleted disk \`${diskCid}\`` : `disk \`${diskCid}\` was already deleted`;
  });
}
