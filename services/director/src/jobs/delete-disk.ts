import { cpisOfStep } from "../steps/cpi-target.js";
import { deleteIfThere } from "../steps/dynamic-disk-steps.js";
import type { DiskJobContext } from "../steps/job-context.js";
import type { Planner } from "./job.js";

/** Deletes a disk that is attached to nothing. */
export const deleteDynamicDisk: Planner<"delete_dynamic_disk", DiskJobContext> = (context, job, tables) => ({
  ...cpisOfStep(context, tables, tables.disks.get(job.diskName)?.cpi),
  locks: [{ type: "disk", resource: job.diskName }],
  run: (run) => deleteIfThere(context, run, job.diskName, job.meant),
});
