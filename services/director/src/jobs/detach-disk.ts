import { ANY_ATTACHMENT, decideDetach } from "../model/disk-decisions.js";
import type { LockName } from "../model/locks.js";
import type { JobOf } from "../model/task.js";
import { cpisOfStep } from "../steps/cpi-target.js";
import { detachDisk } from "../steps/dynamic-disk-steps.js";
import type { JobContext } from "../steps/job-context.js";
import type { TaskRun } from "../workers/task-run.js";
import type { Planner } from "./job.js";

/** Detaches a disk from the VM it is attached to, unless another attachment is meant. */
export const detachDynamicDisk: Planner<"detach_dynamic_disk"> = (context, job, tables) => {
  const { instanceId = "", cpi } = tables.disks.get(job.diskName) ?? {};
  const locks: LockName[] = instanceId === "" ? [] : [{ type: "instance", resource: instanceId }];
  locks.push({ type: "disk", resource: job.diskName });
  return { locks, ...cpisOfStep(context, tables, cpi), run: (run) => detach(context, run, job) };
};

async function detach(context: JobContext, run: TaskRun, job: JobOf<"detach_dynamic_disk">): Promise<string> {
  const { diskName, meant = ANY_ATTACHMENT } = job;
  for (let detached = false; ; detached = true) {
    run.checkpoint();
    const step = await context.tablet.read((tables) =>
      decideDetach(tables.disks.get(diskName), diskName, meant, { detached }),
    );
    if (step.do === "nothing") return step.result;
    await detachDisk(context, run, diskName);
  }
}
