import { cpisOfStep } from "../../cpi/cpi-target.js";
import { endedByErrors } from "../../cpi/ended-by-errors.js";
import { agentToTell } from "../../instances/instance.js";
import type { LockName } from "../../locks/locks.js";
import type { Disk } from "../../store/disk.js";
import type { DirectorTransaction } from "../../store/schema.js";
import type { JobOf } from "../../store/task.js";
import type { Planner, Through } from "../../tasks/job.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";
import { type Intended, requestRelease } from "../disk-steps.js";
import { forgetForGood } from "../forget.js";
import { owedRemoval } from "../owed-removal.js";
import { ANY_ATTACHMENT, decideDetach } from "./decisions.js";
import { dynamicDisk } from "./dynamic-disk.js";

/** Detaches a disk from its VM unless the request names another attachment. */
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
  if (intended === undefined) throw new TypeError(`the plan of a detach has the unexpected step ${step.do}`);
  const record = await detachIntended(context, run, intended);
  return { result: `detached disk \`${intended.disk.diskCid}\``, record };
}

/** Detaches the disk from its VM. An unresponsive agent delays the detach for a bounded time only. */
export async function detachDisk(context: DiskJobContext, run: TaskRun, name: string): Promise<void> {
  const intended = await context.tablet.transact((tx) => intendDetachIn(context, run, tx, name));
  await context.tablet.transact(await detachIntended(context, run, intended));
}

function intendDetachIn(context: DiskJobContext, run: TaskRun, tx: DirectorTransaction, name: string): Intended<Disk> {
  return dynamicDisk(context, run, name).intendDetachIn(tx);
}

/** Detaches a disk whose detach intent is recorded. Returns a function that records the result in a transaction. */
async function detachIntended(
  context: DiskJobContext,
  run: TaskRun,
  { disk, begun }: Intended<Disk>,
): Promise<(tx: DirectorTransaction) => void> {
  const { name } = disk;
  const steps = dynamicDisk(context, run, name);
  return endedByErrors(begun, async () => {
    const instance = await context.tablet.read((tables) => tables.instances.get(disk.instanceId));
    const { stemcellApiVersion = 0 } = instance ?? {};
    const agentId = agentToTell(instance ?? {});
    const isNotified = agentId === "" || (await requestLinkRemoval(context, run, disk, agentId));
    const owed = isNotified ? undefined : owedRemoval(disk, { agentId }, context.clock.nowMs());
    await run.stage("Detaching disk", `${name} from ${disk.vmCid}`, () =>
      steps.detach(disk, stemcellApiVersion, begun),
    );
    context.agents.endedAdds.delete(disk.attachmentId);
    return (tx) => steps.detachedIn(tx, owed);
  });
}

/** Returns true when the agent certainly has no link for the disk and will not create one. */
async function requestLinkRemoval(
  context: DiskJobContext,
  run: TaskRun,
  disk: Disk,
  agentId: string,
): Promise<boolean> {
  const event = { stage: "Telling agent", task: `${agentId} to forget ${disk.name}` };
  const { detachTimeoutMs } = context.limits.agents;
  run.checkpoint();
  run.event({ ...event, state: "started", message: "" });
  const request = async (): Promise<void> => {
    const { diskCid, attachmentId } = disk;
    await context.agents.notify(run, agentId, "remove_dynamic_disk", [diskCid], detachTimeoutMs);
    if (!context.agents.endedAdds.has(attachmentId))
      await forgetForGood(context, run, agentId, [diskCid], detachTimeoutMs);
    run.event({ ...event, state: "finished", message: "" });
  };
  return requestRelease(run, event, request(), { mustLetGo: false });
}
