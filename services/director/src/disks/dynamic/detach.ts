import { UnavailableError } from "@diskmesh/domain";
import { EitherSignal } from "@diskmesh/service";
import { cpisOfStep } from "../../cpi/cpi-target.js";
import { endedByErrors } from "../../cpi/ended-by-errors.js";
import { agentToTell } from "../../instances/instance.js";
import { diskIn, isNameTaken } from "../../instances/scope.js";
import type { Disk } from "../../store/disk.js";
import type { DirectorTransaction } from "../../store/schema.js";
import type { JobOf } from "../../store/task.js";
import type { Planner, Through } from "../../tasks/job.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";
import { type Intended, requestRelease } from "../disk-steps.js";
import { forgetForGood } from "../forget.js";
import { isHostLost } from "../lost-host.js";
import { isStillSilent, owedRemoval } from "../owed-removal.js";
import { ANY_ATTACHMENT, decideDetach, diskNotFound } from "./decisions.js";
import { dynamicDisk, failingStep, locksOf } from "./dynamic-disk.js";

/** Detaches a disk from its VM unless the request names another attachment. */
export const detachDynamicDisk: Planner<"detach_dynamic_disk", DiskJobContext> = (context, job, tables) => {
  const { diskName, scope } = job;
  const { instanceId = "", hostId, cpi } = diskIn(scope, tables, diskName) ?? {};
  const cpis = cpisOfStep(context, tables, cpi);
  if (isNameTaken(scope, tables, diskName)) return failingStep(cpis, diskNotFound(diskName));
  const locks = locksOf({ instanceId, hostId }, diskName);
  return { locks, ...cpis, recordsFirst: true, run: (run) => detach(context, run, job) };
};

async function detach(
  context: DiskJobContext,
  run: TaskRun,
  job: JobOf<"detach_dynamic_disk">,
): Promise<string | Through> {
  const { diskName, scope, meant = ANY_ATTACHMENT } = job;
  run.checkpoint();
  const { step, intended } = await context.tablet.transact((tx) => {
    const step = decideDetach(diskIn(scope, tx, diskName), diskName, meant);
    return { step, intended: step.do === "detach" ? intendDetachIn(context, run, tx, diskName) : undefined };
  });
  if (step.do === "nothing") return step.result;
  if (intended === undefined) throw new TypeError(`the plan of a detach has the unexpected step ${step.do}`);
  const record = await detachIntended(context, run, intended);
  return { result: `detached disk \`${intended.disk.diskCid}\``, record };
}

/** Detaches the disk from its VM. An agent that does not answer delays the detach by `detachGraceMs` at most. */
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
    const callCpi = (): Promise<void> =>
      run.stage("Detaching disk", `${name} from ${disk.vmCid}`, () => steps.detach(disk, stemcellApiVersion, begun));
    const isNotified = await detachAndNotify(context, run, disk, agentId, callCpi);
    const owed = isNotified ? undefined : owedRemoval(disk, { agentId }, context.clock.nowMs());
    context.agents.endedAdds.delete(disk.attachmentId);
    return (tx) => steps.detachedIn(tx, owed);
  });
}

/**
 * Has the CPI detach the disk and the agent remove its link. Returns true when the agent certainly has no link for the
 * disk and will not create one.
 *
 * An agent that answers removes the link before the CPI detaches the disk, so that no program of the VM opens a path
 * that the infrastructure takes away or gives to another disk. The order is a courtesy, not a condition: the agent
 * unmounts nothing, and until the link is gone the pending notification keeps other disks from the VM. So an agent that
 * is late is asked while the CPI works, and the agent of a lost host is told when it is heard again.
 */
async function detachAndNotify(
  context: DiskJobContext,
  run: TaskRun,
  disk: Disk,
  agentId: string,
  callCpi: () => Promise<void>,
): Promise<boolean> {
  if (agentId === "") {
    await callCpi();
    return true;
  }
  const { agents, clock, tablet, limits } = context;
  const owed = await tablet.read((tables) => [...tables.owedRemovals.by("byAgent", agentId)]);
  // The disks of a silent VM are detached one by one, and only the first of them waits.
  const isSilent = isStillSilent(owed, agents.silentMsOf(agentId), clock.nowMs());
  const detached = new AbortController();
  using either = new EitherSignal(run.stopped, detached.signal);
  const asked = requestLinkRemoval(context, run, either.signal, disk, agentId);
  const waited = (ms: number) => clock.sleep(ms, either.signal).catch(() => {});
  const graceOver = waited(isSilent ? 0 : limits.agents.detachGraceMs);
  try {
    const isPrompt = await Promise.race([asked.then(() => true), graceOver, waited(limits.agents.detachPromptMs)]);
    // Asked only now, because the agents of most detaches answer at once.
    const isLost = !isPrompt && !isSilent && (await isHostLost(context, run, agentId, disk));
    if (!isLost) await Promise.race([asked, graceOver]);
    await callCpi();
  } finally {
    // Ends the request, because a repetition could remove the link of a later attachment.
    detached.abort(new UnavailableError(`agent ${agentId} has not answered yet`));
    await Promise.allSettled([asked]);
  }
  return asked;
}

/** Returns true when the agent certainly has no link for the disk and will not create one. */
async function requestLinkRemoval(
  context: DiskJobContext,
  run: TaskRun,
  stopped: AbortSignal,
  disk: Disk,
  agentId: string,
): Promise<boolean> {
  const event = { stage: "Telling agent", task: `${agentId} to forget ${disk.name}` };
  const { detachTimeoutMs } = context.limits.agents;
  const checkpoint = (): void => {
    run.checkpoint();
    stopped.throwIfAborted();
  };
  checkpoint();
  run.event({ ...event, state: "started", message: "" });
  const request = async (): Promise<void> => {
    const { diskCid, attachmentId } = disk;
    const asker = { stopped, checkpoint };
    await context.agents.notify(asker, agentId, "remove_dynamic_disk", [diskCid], detachTimeoutMs);
    if (!context.agents.endedAdds.has(attachmentId))
      await forgetForGood(context, asker, agentId, [diskCid], detachTimeoutMs);
    run.event({ ...event, state: "finished", message: "" });
  };
  return requestRelease(run, event, request(), { mustLetGo: false });
}
