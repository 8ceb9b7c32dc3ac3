import { deleteOrphanedDisk } from "../disks/persistent/delete-orphaned-disk.js";
import type { Planner, Step } from "../tasks/job.js";
import type { StemcellJobContext } from "./context.js";
import { deleteStemcell } from "./delete-stemcell.js";
import { surplusOf } from "./surplus.js";

/** Deletes what is in no use, one after the other; the first that cannot be deleted ends it. */
export const cleanUp: Planner<"clean_up", StemcellJobContext> = (context, job, tables, taskId) => {
  const { stemcells, disks } = surplusOf(tables, job);
  const [stemcell] = stemcells;
  if (stemcell !== undefined) {
    const deletion = { type: "delete_stemcell", ...stemcell, force: false } as const;
    return andOn(context, deleteStemcell(context, deletion, tables, taskId));
  }
  const [disk] = disks;
  if (disk !== undefined) {
    const deletion = { type: "delete_orphaned_disk", diskCid: disk.diskCid } as const;
    return andOn(context, deleteOrphanedDisk(context, deletion, tables, taskId));
  }
  return { locks: [], cpis: [], run: async () => "nothing is left to clean up" };
};

function andOn(context: StemcellJobContext, step: Step): Step {
  return {
    ...step,
    run: async (run) => {
      run.checkpoint();
      const done = await step.run(run);
      if (typeof done === "object") await context.tablet.transact(done.record);
      return undefined;
    },
  };
}
