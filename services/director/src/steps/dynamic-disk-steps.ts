import { DomainError, messageOf } from "@diskmesh/domain";
import { tolerate } from "../cpi/cpi-error.js";
import { sameCpi } from "../model/cpi-choice.js";
import { type Disk, type DiskIntent, dynamicDisks, intendCreateDisk } from "../model/disk.js";
import { ANY_ATTACHMENT, decideDelete, type WantedDisk } from "../model/disk-decisions.js";
import type { Target } from "../model/instance.js";
import type { JsonObject } from "../model/json.js";
import { owedRemoval } from "../model/owed-removal.js";
import { attachedTo, refuseUnlessOpen } from "../model/recorded-deployments.js";
import type { DirectorTables, DirectorTransaction } from "../model/schema.js";
import type { Begun } from "../workers/events.js";
import type { TaskRun } from "../workers/task-run.js";
import { recorded } from "./cpi-target.js";
import { deleteWithCpi, dynamicDisk, type Intended, tellToForget } from "./disk-steps.js";
import type { DiskJobContext } from "./job-context.js";
import { forgetForGood, owesBeforeAttach } from "./owed-removals.js";

/** Steps on one dynamic disk. All need its lock, and the lock of the instance it is or will be attached to. */

/** Makes the disk, near the VM if one is given. */
export async function createDisk(
  context: DiskJobContext,
  run: TaskRun,
  intent: Omit<DiskIntent, "token">,
  vmCid: string,
): Promise<void> {
  const { name } = intent;
  await run.stage("Creating disk", name, async () => {
    const { disk, begunBefore } = await context.tablet.transact((tx) => {
      const existing = tx.disks.get(name);
      if (existing === undefined) refuseUnlessOpen(tx, intent.deployment);
      const intended = intendCreateDisk(existing, { ...intent, token: context.newId() });
      tx.disks.put(intended);
      return { disk: intended, begunBefore: existing !== undefined };
    });
    const { cpi, az, token } = disk;
    // The CPI of the VM makes it, which may be the default one, whichever CPI the az has got since.
    const target = vmCid === "" ? { cpi, az, azCpi: cpi } : recorded(disk);
    const cloudProperties = { ...disk.cloudProperties, name };
    const making = { token, madeFor: `dynamic disk ${name}`, begunBefore, target, cloudProperties, vmCid };
    await dynamicDisk(context, run, name).make(disk, making);
  });
}

/** `intended` where that is recorded already. What came of it is in memory then, and may not be durable yet. */
export async function attachDisk(
  context: DiskJobContext,
  run: TaskRun,
  { name, diskCid }: Pick<Disk, "name" | "diskCid">,
  target: Target,
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

/** Within a transaction; undefined when there is something to settle before. */
export function intendAttachIn(
  context: DiskJobContext,
  run: TaskRun,
  tx: DirectorTransaction,
  { name, diskCid }: Disk,
  target: Target,
): Intended<Disk> | undefined {
  if (owesBeforeAttach(tx, target.agentId, diskCid)) return undefined;
  return dynamicDisk(context, run, name).intendAttachIn(tx, target);
}

/** What a caller asks for. */
export interface DiskWish extends Pick<WantedDisk, "made"> {
  readonly diskName: string;
  readonly metadata: JsonObject | null;
}

/** The infrastructure shall remember the caller's names and values, and ours, which win as in BOSH. */
export function wantedDisk(
  context: DiskJobContext,
  tables: DirectorTables,
  { deployment, az, cpi }: Pick<WantedDisk, "deployment" | "az" | "cpi">,
  { diskName: name, made, metadata: given }: DiskWish,
): WantedDisk {
  const cpis = context.configs.cpi.current(tables);
  const metadata = given === null ? undefined : { ...given, director: context.config.name, deployment };
  return { name, deployment, az, cpi, sameCpi: (other) => sameCpi(cpi, other, cpis), made, metadata };
}

export async function setDiskMetadata(
  context: DiskJobContext,
  run: TaskRun,
  disk: Disk,
  metadata: JsonObject,
): Promise<void> {
  const steps = dynamicDisk(context, run, disk.name);
  await run.stage("Setting disk metadata", disk.name, async () => {
    await steps.setMetadata(disk, metadata);
    await steps.change((current) => ({ ...current, metadata }));
  });
}

/** Tells the VM's agent where the disk is. */
export async function tellAgentOfDisk(
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
      await context.agents.tell(run, agentId, "add_dynamic_disk", [disk.diskCid, disk.hint], attachTimeoutMs);
      endedAdds.add(disk.attachmentId);
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      throw new AgentNotToldError(
        `disk \`${disk.name}\` is attached to \`${disk.vmCid}\`, but the vm's agent was not told: ${error.message}; ask for the disk again`,
        { cause: error, about: { disk_name: disk.name, agent_id: agentId } },
      );
    }
  });
}

/** Tells an agent that has been restarted of its VM's disks, which it has forgotten. Needs the lock of the instance. */
export async function tellAgentOfDisks(context: DiskJobContext, run: TaskRun, agentId: string): Promise<void> {
  const { disks } = await context.tablet.read((tables) => attachedTo(tables, agentId));
  for (const disk of disks) await tellAgentOfDisk(context, run, disk, agentId);
}

class AgentNotToldError extends DomainError {
  override readonly reason = "AGENT_NOT_TOLD";
  override readonly outcome = "unknown" as const;
}

/** Detaches the disk from wherever it is. An agent that does not answer delays that for a bounded time only. */
export async function detachDisk(context: DiskJobContext, run: TaskRun, name: string): Promise<void> {
  const intended = await context.tablet.transact((tx) => intendDetachIn(context, run, tx, name));
  await context.tablet.transact(await detachIntended(context, run, intended));
}

/** Within a transaction. */
export function intendDetachIn(
  context: DiskJobContext,
  run: TaskRun,
  tx: DirectorTransaction,
  name: string,
): Intended<Disk> {
  return dynamicDisk(context, run, name).intendDetachIn(tx);
}

/** Detaches a disk whose detaching is intended. Returns what is to be recorded of it in a transaction. */
export async function detachIntended(
  context: DiskJobContext,
  run: TaskRun,
  { disk, begun }: Intended<Disk>,
): Promise<(tx: DirectorTransaction) => void> {
  const { name } = disk;
  const steps = dynamicDisk(context, run, name);
  return endedByErrors(begun, async () => {
    const instance = await context.tablet.read((tables) => tables.instances.get(disk.instanceId));
    const { agentId = "", stemcellApiVersion = 0 } = instance ?? {};
    const isTold = agentId === "" || (await tellAgentToForget(context, run, disk, agentId));
    const owed = isTold ? undefined : owedRemoval(disk, { agentId }, context.clock.nowMs());
    await run.stage("Detaching disk", `${name} from ${disk.vmCid}`, () =>
      steps.detach(disk, stemcellApiVersion, begun),
    );
    context.agents.endedAdds.delete(disk.attachmentId);
    return (tx) => steps.detachedIn(tx, owed);
  });
}

/** What keeps a call from being made ends what was told of it. */
async function endedByErrors<Result>(begun: Begun | undefined, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    begun?.end({ error: messageOf(error) });
    throw error;
  }
}

/** Returns whether it surely has no link for the disk, and makes none. */
async function tellAgentToForget(context: DiskJobContext, run: TaskRun, disk: Disk, agentId: string): Promise<boolean> {
  const event = { stage: "Telling agent", task: `${agentId} to forget ${disk.name}` };
  const { detachTimeoutMs } = context.limits.agents;
  run.checkpoint();
  run.event({ ...event, state: "started", message: "" });
  const telling = async (): Promise<void> => {
    const { diskCid, attachmentId } = disk;
    await context.agents.tell(run, agentId, "remove_dynamic_disk", [diskCid], detachTimeoutMs);
    if (!context.agents.endedAdds.has(attachmentId))
      await forgetForGood(context, run, agentId, [diskCid], detachTimeoutMs);
    run.event({ ...event, state: "finished", message: "" });
  };
  return tellToForget(run, event, telling(), { mustLetGo: false });
}

/** Deletes the disk and its record. */
async function deleteDisk(context: DiskJobContext, run: TaskRun, name: string): Promise<void> {
  await run.stage("Deleting disk", name, async () => {
    const steps = dynamicDisk(context, run, name);
    const { disk } = await steps.change((current) => dynamicDisks.moved(current, "intend_delete"));
    await deleteWithCpi(context, run, recorded(disk), disk.diskCid);
    await context.tablet.transact((tx) => tx.disks.delete(name));
  });
}

/** Deletes a disk that is attached to nothing, if there is one, and it is the one that is meant. */
export async function deleteIfThere(
  context: DiskJobContext,
  run: TaskRun,
  diskName: string,
  meant = ANY_ATTACHMENT,
): Promise<string> {
  let deletedCid = "";
  for (;;) {
    run.checkpoint();
    const { disk, step } = await context.tablet.read((tables) => {
      const disk = tables.disks.get(diskName);
      return { disk, step: decideDelete(disk, diskName, meant, { deletedCid }) };
    });
    if (step.do === "nothing") return step.result;
    if (disk === undefined) throw new TypeError(`a disk that is not there cannot ${step.do}`);
    if (step.do === "create") {
      // Refused: it surely is not there, and its record is gone.
      await tolerate(createDisk(context, run, disk, ""), (error) => error.refused);
    } else {
      await deleteDisk(context, run, diskName);
      deletedCid = disk.diskCid;
    }
  }
}
