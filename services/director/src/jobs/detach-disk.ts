import { ANY_ATTACHMENT, decideDetach } from "../model/disk-decisions.js";
import type { LockName } from "../model/locks.js";
import type { JobOf } from "../model/task.js";
import { cpisOfStep } from "../steps/cpi-target.js";
import { detachIntended, intendDetachIn } from "../steps/dynamic-disk-steps.js";
import type { DiskJobContext } from "../steps/job-context.js";
import type { TaskRun } from "../workers/task-run.js";
import type { Planner, Through } from "./job.js";

/** Detaches a disk from the VM it is attached to, unless another attachment is meant. */
export const detachDynamicDisk: Planner<"detach_dynamic_disk", DiskJobContext> = (context, job, tables) => {
  const { instanceId = "", cpi } = tables.disks.get(job.diskName) ?? {};
  const locks: LockName[] = instanceId === "" ? [] : [{ type: "instance", resource: instanceId }];
  locks.push({ type: "disk", resource: job.diskName });
  return { locks, ...cpisOfStep(context, tables, cpi), recordsFirst: true, run: (run) => detach(context, run, job) };
};

async function detach(
  context: DiskJobContext,
  run: TaskRun,
  job: JobOf<"detach_dynamic_disk">,
): Promise<string | Through> {
  const { diskName, meant = ANY_ATTACHMENT } = job;
  run.checkpoint();
  const { step, intended } = await context.tablet.transact((tx) => {
    const step = decideDetach(tx.disks.get(diskName), diskName, meant);
    return { step, intended: step.do === "detach" ? intendDetachIn(context, run, tx, diskName) : undefined };
  });
  if (step.do === "nothing") return step.result;
  if (intended === undefined) throw new TypeError(`a detach cannot ${step.do}`);
  const record = await detachIntended(context, run, intended);
  return { result: `detached disk \`${intended.disk.diskCid}\``, record };
}
