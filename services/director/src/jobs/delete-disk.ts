import { CpiCallError } from "../cpi/cpi-error.js";
import { decideDelete } from "../model/disk-decisions.js";
import { cpisOfStep } from "../steps/cpi-target.js";
import { createDisk, deleteDisk } from "../steps/dynamic-disk-steps.js";
import type { JobContext } from "../steps/job-context.js";
import type { TaskRun } from "../workers/task-run.js";
import type { Planner } from "./job.js";

/** Deletes a disk that is attached to nothing. */
export const deleteDynamicDisk: Planner<"delete_dynamic_disk"> = (context, job, tables) => ({
  ...cpisOfStep(context, tables, tables.disks.get(job.diskName)?.cpi),
  locks: [{ type: "disk", resource: job.diskName }],
  run: (run) => deleteIfThere(context, run, job.diskName),
});

/** Needs the disk's lock. */
export async function deleteIfThere(context: JobContext, run: TaskRun, diskName: string): Promise<string> {
  let deletedCid = "";
  for (;;) {
    run.checkpoint();
    const { disk, step } = await context.tablet.read((tables) => {
      const disk = tables.disks.get(diskName);
      return { disk, step: decideDelete(disk, diskName, { deletedCid }) };
    });
    if (step.do === "nothing") return step.result;
    if (disk === undefined) throw new TypeError(`a disk that is not there cannot ${step.do}`);
    if (step.do === "create") {
      await createDisk(context, run, disk, "").catch((error: unknown) => {
        // It surely is not there, and its record is gone.
        if (!(error instanceof CpiCallError && error.refused)) throw error;
      });
    } else {
      await deleteDisk(context, run, diskName);
      deletedCid = disk.diskCid;
    }
  }
}
