import { DomainError } from "@diskmesh/domain";
import { cpisOfStep } from "../../cpi/cpi-target.js";
import { endedByErrors } from "../../cpi/ended-by-errors.js";
import { instanceNamed, type Target, targetOf } from "../../instances/instance.js";
import { attachedTo } from "../../instances/recorded-deployments.js";
import { coversHost, diskIn, instanceIn, isNameTaken } from "../../instances/scope.js";
import { diskTypeNamed } from "../../specs/cloud-config.js";
import type { Disk } from "../../store/disk.js";
import type { JsonObject } from "../../store/json.js";
import type { DirectorTables, DirectorTransaction } from "../../store/schema.js";
import type { WantedPlace } from "../../store/task.js";
import type { Planner, Step, Through } from "../../tasks/job.js";
import { notePhase } from "../../tasks/metrics.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";
import type { Intended } from "../disk-steps.js";
import { owesBeforeAttach } from "../forget.js";
import { createDisk, type DiskWish, madeKnown, setDiskMetadata, wantedDisk } from "./create.js";
import { decideProvide, diskNotFound, nameTaken, type Progress } from "./decisions.js";
import { dynamicDisk, failingStep, locksOf } from "./dynamic-disk.js";
import { cpisToAsk, findHost, hostNotFound } from "./hosts.js";

interface Wanted extends DiskWish, WantedPlace {
  readonly readOnly: boolean;
}

type AttachTarget = Target & { readonly readOnly: boolean };

/**
 * Creates the disk if needed, attaches it to the instance's VM or the host, and notifies the VM's agent. Reads the VM
 * only under the lock of the instance, because a recreation may replace the VM before the task holds the lock, and asks
 * for the host only under the lock of the host.
 */
export const provideDisk: Planner<"provide_dynamic_disk", DiskJobContext> = (
  context,
  { pool, sizeMib, readOnly = false, ...job },
  tables,
) => plan(context, tables, { ...job, made: { pool, sizeMib }, readOnly });

/** Attaches an existing disk and notifies the VM's agent. */
export const attachDiskOnly: Planner<"attach_dynamic_disk", DiskJobContext> = (context, job, tables) =>
  plan(context, tables, { readOnly: false, ...job, made: undefined });

function plan(context: DiskJobContext, tables: DirectorTables, wanted: Wanted): Step {
  const { instanceId, hostId, diskName, scope } = wanted;
  const cpis =
    hostId === undefined
      ? cpisOfStep(context, tables, instanceNamed(instanceId, instanceIn(scope, tables, instanceId)).cpi)
      : { cpis: cpisToAsk(context, tables, wanted.hostCpi) };
  if (isNameTaken(scope, tables, diskName))
    return failingStep(cpis, wanted.made === undefined ? diskNotFound(diskName) : nameTaken(diskName));
  if (hostId !== undefined && !coversHost(scope, tables, hostId)) return failingStep(cpis, hostNotFound(hostId));
  return {
    locks: locksOf({ instanceId, hostId }, diskName),
    ...cpis,
    recordsFirst: true,
    run: (run) => provide(context, run, wanted),
  };
}

function decide(
  context: DiskJobContext,
  tables: DirectorTables,
  wanted: Wanted,
  { host, ...progress }: Progress & { readonly host: Target | undefined },
) {
  const { diskName, instanceId, readOnly, scope } = wanted;
  const target = { ...(host ?? targetOf(instanceId, instanceIn(scope, tables, instanceId))), readOnly };
  const disk = diskIn(scope, tables, diskName);
  const row = wantedDisk(context, tables, target, wanted);
  const step = decideProvide(disk, row, target, progress);
  return { disk, target, metadata: row.metadata, step };
}

async function provide(context: DiskJobContext, run: TaskRun, wanted: Wanted): Promise<string | Through> {
  const { hostId, hostCpi } = wanted;
  const host = hostId === undefined ? undefined : await findHost(context, run, hostId, hostCpi);
  let agentNotified = false;
  const notify = async (disk: Disk, { agentId }: Target): Promise<void> => {
    await timed(context, "tell_agent", notifyAgentOfDisk(context, run, disk, agentId));
    agentNotified = true;
  };
  for (;;) {
    run.checkpoint();
    const { disk, target, metadata, step, intended } = await context.tablet.transact((tx) => {
      const decided = decide(context, tx, wanted, { host, agentNotified });
      const { disk, target, step } = decided;
      const intended = step.do === "attach" && disk ? intendAttachIn(context, run, tx, disk, target) : undefined;
      return { ...decided, intended };
    });
    if (step.do === "nothing")
      return disk && (wanted.made || disk.hostId !== undefined) ? madeKnown(step.result, disk) : step.result;
    const made = wanted.made ?? disk;
    if (step.do === "create" && made) {
      const { pool, sizeMib } = made;
      // A repeated request uses the first request's properties, even if the disk type has changed since.
      const cloudProperties =
        disk?.cloudProperties ?? (host === undefined ? await cloudPropertiesOf(context, pool) : { pool });
      const { deployment, az, cpi } = target;
      const { diskName: name, scope } = wanted;
      const intent = { name, deployment, az, cpi, pool, sizeMib, cloudProperties, scope };
      await timed(context, "create", createDisk(context, run, intent, target.vmCid));
    } else if (step.do === "attach" && disk) {
      await timed(context, "attach", attachDisk(context, run, disk, target, intended));
      // The agent is notified before the hint is durable. After a crash, the recorded attach intent makes the next
      // director attach the disk and notify the agent again.
      const next = context.tablet.ahead((tables) => decide(context, tables, wanted, { host, agentNotified }));
      if (next.step.do === "tell_agent" && next.disk) await notify(next.disk, target);
    } else if (step.do === "set_metadata" && disk && metadata) {
      await timed(context, "set_metadata", setDiskMetadata(context, run, disk, metadata));
    } else if (step.do === "tell_agent" && disk) {
      await notify(disk, target);
    } else {
      throw new TypeError(`the plan of ProvideDynamicDisk has the unexpected step ${step.do}`);
    }
  }
}

async function timed(
  context: DiskJobContext,
  phase: Parameters<typeof notePhase>[0],
  work: Promise<void>,
): Promise<void> {
  const startedMs = context.clock.monotonicMs();
  await work;
  notePhase(phase, context.clock.monotonicMs() - startedMs);
}

function cloudPropertiesOf(context: DiskJobContext, pool: string): Promise<JsonObject> {
  return context.tablet.read((tables) => diskTypeNamed(context.configs.cloud.current(tables), pool).cloudProperties);
}

/** Attaches the disk. With a recorded intent, the result may be only in memory on return and not yet durable. */
export async function attachDisk(
  context: DiskJobContext,
  run: TaskRun,
  { name, diskCid }: Pick<Disk, "name" | "diskCid">,
  target: AttachTarget,
  intended?: Intended<Disk>,
): Promise<void> {
  const steps = dynamicDisk(context, run, name);
  await endedByErrors(intended?.begun, () =>
    run.stage("Attaching disk", `${name} to ${target.vmCid}`, async () => {
      if (intended === undefined) await steps.attach(diskCid, target);
      else await steps.attachIntended(intended, target);
    }),
  );
}

/**
 * Records the attach intent. Returns undefined when pending detach notifications of the agent must be settled first.
 */
function intendAttachIn(
  context: DiskJobContext,
  run: TaskRun,
  tx: DirectorTransaction,
  { name, diskCid }: Disk,
  target: AttachTarget,
): Intended<Disk> | undefined {
  if (owesBeforeAttach(tx, target.agentId, diskCid)) return undefined;
  return dynamicDisk(context, run, name).intendAttachIn(tx, target);
}

/** Sends the VM's agent the hint that locates the disk. */
export async function notifyAgentOfDisk(
  context: DiskJobContext,
  run: TaskRun,
  disk: Disk,
  agentId: string,
): Promise<void> {
  const { attachTimeoutMs } = context.limits.agents;
  const { endedAdds } = context.agents;
  await run.stage("Telling agent", `${agentId} of ${disk.name}`, async () => {
    try {
      endedAdds.delete(disk.attachmentId);
      await context.agents.notify(run, agentId, "add_dynamic_disk", [disk.diskCid, disk.hint], attachTimeoutMs);
      endedAdds.add(disk.attachmentId);
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      throw new AgentNotToldError(
        `disk \`${disk.name}\` is attached to \`${disk.vmCid}\`, but the vm's agent was not notified: ${error.message}; repeat the request`,
        { cause: error, about: { disk_name: disk.name, agent_id: agentId } },
      );
    }
  });
}

/**
 * Sends a restarted agent the disks of its VM again, because the restart lost the disk links. Needs the lock of the
 * instance.
 */
export async function notifyAgentOfDisks(context: DiskJobContext, run: TaskRun, agentId: string): Promise<void> {
  const { disks } = await context.tablet.read((tables) => attachedTo(tables, agentId));
  for (const disk of disks) await notifyAgentOfDisk(context, run, disk, agentId);
}

class AgentNotToldError extends DomainError {
  override readonly reason = "AGENT_NOT_TOLD";
  override readonly outcome = "unknown" as const;
}
