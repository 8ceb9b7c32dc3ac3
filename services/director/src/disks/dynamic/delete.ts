import { tolerate } from "../../cpi/cpi-error.js";
import { cpisOfStep } from "../../cpi/cpi-target.js";
import { deleteObject } from "../../cpi/delete-object.js";
import { putPossibleOrphan } from "../../cpi/make-once.js";
import { diskIn, isNameTaken } from "../../instances/scope.js";
import type { JobOf } from "../../store/task.js";
import type { Planner } from "../../tasks/job.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";
import { createDisk } from "./create.js";
import { ANY_ATTACHMENT, decideDelete } from "./decisions.js";
import { dynamicDisks } from "./disk.js";
import { dynamicDisk } from "./dynamic-disk.js";
import { rememberDeleted } from "./undelete.js";

export const deleteDynamicDisk: Planner<"delete_dynamic_disk", DiskJobContext> = (context, job, tables) => {
  const { diskName, meant, scope } = job;
  return {
    ...cpisOfStep(context, tables, diskIn(scope, tables, diskName)?.cpi),
    // The lock of a disk outside of the caller's scope is not waited for.
    locks: isNameTaken(scope, tables, diskName) ? [] : [{ type: "disk", resource: diskName }],
    run: (run) => deleteIfThere(context, run, diskName, { meant, scope }),
  };
};

async function deleteDisk(context: DiskJobContext, run: TaskRun, name: string): Promise<void> {
  await run.stage("Deleting disk", name, async () => {
    const steps = dynamicDisk(context, run, name);
    const { disk } = await steps.change((current) => dynamicDisks.moved(current, "intend_delete"));
    const { token, diskCid: cid, cpi, az, deployment } = disk;
    const { mayExist } = await deleteObject(context, run, { kind: "disk", cid, cpi, az });
    await context.tablet.transact((tx) => {
      tx.disks.delete(name);
      rememberDeleted(context, tx, disk);
      if (mayExist === undefined) return;
      const place = { cpi, az, deployment, madeFor: `dynamic disk ${name}`, reason: mayExist };
      putPossibleOrphan(context, run, tx, { token, kind: "disk", cid, ...place });
    });
  });
}

/**
 * Deletes a detached disk if it exists in the scope and its last attachment matches `meant`. Returns the result text.
 */
export async function deleteIfThere(
  context: DiskJobContext,
  run: TaskRun,
  diskName: string,
  { meant = ANY_ATTACHMENT, scope }: Pick<JobOf<"delete_dynamic_disk">, "meant" | "scope"> = {},
): Promise<string> {
  let deletedCid = "";
  for (;;) {
    run.checkpoint();
    const { disk, step } = await context.tablet.read((tables) => {
      const disk = diskIn(scope, tables, diskName);
      return { disk, step: decideDelete(disk, diskName, meant, { deletedCid }) };
    });
    if (step.do === "nothing") return step.result;
    if (disk === undefined) throw new TypeError(`step ${step.do} needs a recorded disk`);
    if (step.do === "create") {
      // A CPI that refuses the repeated creation shows that the disk does not exist. `makeOnce` has then removed the
      // record.
      await tolerate(createDisk(context, run, disk, ""), (error) => error.refused);
    } else {
      await deleteDisk(context, run, diskName);
      deletedCid = disk.diskCid;
    }
  }
}
