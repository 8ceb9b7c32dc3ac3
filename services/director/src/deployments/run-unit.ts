import { InvalidStateError } from "@diskmesh/domain";
import {
  type PersistentDiskWork,
  persistentDiskWorkOf,
  runPersistentDiskStep,
} from "../disks/persistent/persistent-disk-steps.js";
import { changeInstance } from "../instances/instance-record.js";
import type { LockName } from "../locks/locks.js";
import type { WatchTime } from "../specs/update-block.js";
import { formatInstance, type Instance } from "../store/instance.js";
import type { DirectorTables } from "../store/schema.js";
import type { SkipDrain } from "../store/task.js";
import { runLane } from "../tasks/run-lane.js";
import { skipsDrain } from "../tasks/task.js";
import type { TaskRun } from "../tasks/task-run.js";
import { type StopIntent, startJobs, stopJobs } from "../vms/job-steps.js";
import { awaitVm, createVm, deleteInstance, deleteOutdatedVm, describeVm } from "../vms/vm-steps.js";
import type { DeploymentJobContext } from "./context.js";
import { decideDeploy, type InstanceStep, locksOfStep } from "./deployment.js";
import { type Aim, needsOf } from "./update-needs.js";

export interface UnitWork {
  readonly aim: Aim;
  readonly skipDrain: SkipDrain;
  /** Time for instances to start; absent when no instance may be started. */
  readonly watchTime?: WatchTime;
  /** Returns true when the work should end early. */
  readonly until?: (instances: readonly Instance[]) => boolean;
}

interface PlannedStep {
  readonly locks: readonly LockName[];
  readonly step: InstanceStep;
  readonly diskWork: PersistentDiskWork | undefined;
}

/** Disk steps that need no stop of the jobs, because no job can be using the disk. */
const LEAVES_JOBS: readonly PersistentDiskWork["step"][] = ["create", "attach", "mount", "orphan"];

/** Runs the steps for a few instances one by one. */
export function runUnit(
  context: DeploymentJobContext,
  run: TaskRun,
  instanceIds: readonly string[],
  work: UnitWork,
): Promise<void> {
  return runLane(
    context,
    run,
    (tables) => planStep(context, tables, instanceIds, work),
    (lane, planned) => runStep(context, lane, planned, work),
  );
}

/** Runs the steps for one instance in a task that holds the locks of the instance and its dynamic disks. */
export async function runHeld(
  context: DeploymentJobContext,
  run: TaskRun,
  instanceId: string,
  work: UnitWork,
): Promise<void> {
  for (;;) {
    run.checkpoint();
    const planned = await context.tablet.read((tables) => planStep(context, tables, [instanceId], work));
    if (planned === undefined) return;
    const { instance } = planned.step;
    if (instance.instanceId !== instanceId)
      throw new InvalidStateError(
        `the manifest gives an address of ${formatInstance(instance)} to another instance: deploy again`,
      );
    await runStep(context, run, planned, work);
  }
}

function planStep(
  context: DeploymentJobContext,
  tables: DirectorTables,
  instanceIds: readonly string[],
  { aim, until }: UnitWork,
): PlannedStep | undefined {
  const instances = instanceIds.flatMap((instanceId) => tables.instances.get(instanceId) ?? []);
  if (until?.(instances)) return undefined;
  const step = decideDeploy(instances, needsOf(context, tables, aim));
  if (step.do === "nothing") return undefined;
  const { instance } = step;
  const attached = [...tables.disks.by("byInstance", instance.instanceId)];
  const isOfDisk = step.do === "persistent_disk";
  const diskWork = isOfDisk ? persistentDiskWorkOf(context, tables, aim.deployment)(instance) : undefined;
  return { step, locks: locksOfStep(step, attached), diskWork };
}

async function runStep(
  context: DeploymentJobContext,
  run: TaskRun,
  { step, diskWork }: PlannedStep,
  { aim, watchTime, ...work }: UnitWork,
): Promise<void> {
  const { instance } = step;
  const skipDrain = skipsDrain(work.skipDrain, instance.group);
  const stop = (intent: StopIntent) => stopJobs(context, run, instance, { intent, skipDrain });
  if (step.do === "create_vm") await createVm(context, run, instance);
  else if (step.do === "await_agent") await awaitVm(context, run, instance);
  else if (step.do === "set_vm_metadata") await describeVm(context, run, instance);
  else if (step.do === "delete_instance") await deleteInstance(context, run, instance, { skipDrain });
  else if (step.do === "delete_vm") {
    const changedByTaskId = aim.wanted === "recreate" || aim.wanted === "restart" ? aim.taskId : undefined;
    await deleteOutdatedVm(context, run, instance, step.because, { skipDrain, changedByTaskId });
  } else if (step.do === "persistent_disk" && diskWork !== undefined) {
    if (!LEAVES_JOBS.includes(diskWork.step)) await stop("restart");
    await runPersistentDiskStep(context, run, diskWork);
  } else if (step.do === "stop") await stop("stop");
  else if (step.do === "restart") {
    await stop("restart");
    await changeInstance(context, instance.instanceId, (now) => ({ ...now, changedByTaskId: aim.taskId }));
  } else if (step.do === "start" && watchTime !== undefined) await startJobs(context, run, instance, watchTime);
  else throw new TypeError(`the plan of an instance has the unexpected step ${step.do}`);
}
