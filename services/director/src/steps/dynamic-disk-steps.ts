import { parseCid } from "@diskmesh/cpi";
import { DomainError, messageOf, NotImplementedError } from "@diskmesh/domain";
import { CpiCallError } from "../cpi/cpi-error.js";
import { cpiToRecord } from "../model/cpi-choice.js";
import {
  type Disk,
  type DiskIntent,
  diskAttached,
  diskCreated,
  diskDetached,
  diskNotAttached,
  intendAttachDisk,
  intendCreateDisk,
  intendDeleteDisk,
  intendDetachDisk,
} from "../model/disk.js";
import type { Target } from "../model/instance.js";
import type { Json, JsonObject } from "../model/json.js";
import { refuseUnlessOpen } from "../model/recorded-deployments.js";
import type { DirectorTransaction } from "../model/schema.js";
import type { TaskRun } from "../workers/task-run.js";
import { tellAgent } from "./agent-steps.js";
import { recorded } from "./cpi-target.js";
import type { JobContext } from "./job-context.js";
import { cpiFacts, makeOnce } from "./make-once.js";

/**
 * Steps on one disk. Each records its intent, acts, and records what came of it, so that whoever finds the intent
 * can repeat the step. All need the disk's lock, and the lock of the instance it is or will be attached to.
 */

/** Records what a disk becomes; undefined deletes the record. */
async function change(
  context: JobContext,
  name: string,
  next: (disk: Disk | undefined) => Disk | undefined,
): Promise<void> {
  await context.tablet.transact((tx) => {
    const disk = next(tx.disks.get(name));
    if (disk === undefined) tx.disks.delete(name);
    else tx.disks.put(disk);
  });
}

function known(disk: Disk | undefined): Disk {
  // The lock is held: nobody else can have deleted it.
  if (disk === undefined) throw new TypeError("a disk vanished while it was locked");
  return disk;
}

/** Makes the disk, near the VM if one is given. */
export async function createDisk(
  context: JobContext,
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
    const { cpi, sizeMib, cloudProperties, az, token, deployment } = disk;
    // Near a VM it is the VM's CPI that makes it, which may be the default one whatever the az says since.
    const target = vmCid === "" ? { cpi, az, azCpi: cpi } : recorded(disk);
    const { findsByToken } = await cpiFacts(context, run, target);
    const madeFor = `dynamic disk ${name}`;
    const drop = (tx: DirectorTransaction) => tx.disks.delete(name);
    const making = { kind: "disk", token, cpi, az, deployment, madeFor, findsByToken, begunBefore, drop } as const;
    const request = { sizeMib, cloudProperties: { ...cloudProperties, name }, vmCid, az, token };
    const made = await makeOnce(context, run, making, (options) =>
      context.cpi.call("createDisk", target, request, run, options),
    );
    if (made === undefined) return;
    const { diskCid } = made;
    parseCid("disk", diskCid);
    const maker = cpiToRecord(cpi, made.cpi);
    await change(context, name, (current) => diskCreated(known(current), { diskCid, cpi: maker }));
  });
}

/** Attaches the disk to the VM. Its agent is told by another step. */
export async function attachDisk(context: JobContext, run: TaskRun, name: string, target: Target): Promise<void> {
  await run.stage("Attaching disk", `${name} to ${target.vmCid}`, async () => {
    const { before, disk } = await context.tablet.transact((tx) => {
      const current = known(tx.disks.get(name));
      const intended = intendAttachDisk(current, target);
      tx.disks.put(intended);
      return { before: current.state, disk: intended };
    });
    try {
      const request = { vmCid: target.vmCid, diskCid: disk.diskCid };
      const cpi = { ...recorded(disk), stemcellApiVersion: target.stemcellApiVersion };
      const { diskHint } = await context.cpi.call("attachDisk", cpi, request, run);
      await change(context, name, (current) => diskAttached(known(current), (diskHint ?? null) as Json));
    } catch (error) {
      const surelyNot = error instanceof CpiCallError && error.outcome === "not_done" && before === "detached";
      if (surelyNot) await change(context, name, (current) => diskNotAttached(known(current)));
      throw error;
    }
  });
}

/** What the infrastructure shall remember: the caller's names and values, and ours, which win as in BOSH. */
export function metadataFor(context: JobContext, deployment: string, given: JsonObject | null): JsonObject | undefined {
  return given === null ? undefined : { ...given, director: context.config.name, deployment };
}

export async function setDiskMetadata(
  context: JobContext,
  run: TaskRun,
  disk: Disk,
  metadata: JsonObject,
): Promise<void> {
  await run.stage("Setting disk metadata", disk.name, async () => {
    try {
      await context.cpi.call("setDiskMetadata", recorded(disk), { diskCid: disk.diskCid, metadata }, run);
    } catch (error) {
      // Optional in the CPI contract.
      if (!(error instanceof CpiCallError && error.cause instanceof NotImplementedError)) throw error;
    }
    await change(context, disk.name, (current) => ({ ...known(current), metadata }));
  });
}

/** Tells the VM's agent where the disk is. */
export async function tellAgentOfDisk(context: JobContext, run: TaskRun, disk: Disk, agentId: string): Promise<void> {
  // Without a hint there is nothing an agent could look for.
  if (disk.hint === null) return;
  await run.stage("Telling agent", `${agentId} of ${disk.name}`, async () => {
    try {
      await tellAgent(
        context,
        run,
        agentId,
        "add_dynamic_disk",
        [disk.diskCid, disk.hint],
        context.config.agents.attachTimeoutMs,
      );
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      throw new AgentNotToldError(
        `disk \`${disk.name}\` is attached to \`${disk.vmCid}\`, but the vm's agent was not told: ${error.message}; ask for the disk again`,
        { cause: error, about: { disk_name: disk.name, agent_id: agentId } },
      );
    }
  });
}

class AgentNotToldError extends DomainError {
  override readonly reason = "AGENT_NOT_TOLD";
  override readonly outcome = "unknown" as const;
}

/** CPI errors after which a disk is surely not attached to that VM. */
const NOT_ATTACHED = ["DISK_NOT_ATTACHED", "VM_NOT_FOUND", "DISK_NOT_FOUND"] as const;

/** Detaches the disk from wherever it is. An agent that does not answer delays that for a bounded time only. */
export async function detachDisk(context: JobContext, run: TaskRun, name: string): Promise<void> {
  const { disk, agentId, stemcellApiVersion } = await context.tablet.transact((tx) => {
    const intended = intendDetachDisk(known(tx.disks.get(name)));
    tx.disks.put(intended);
    const { agentId = "", stemcellApiVersion = 0 } = tx.instances.get(intended.instanceId) ?? {};
    return { disk: intended, agentId, stemcellApiVersion };
  });
  if (agentId !== "") await tellAgentToForget(context, run, disk, agentId);
  await run.stage("Detaching disk", `${name} from ${disk.vmCid}`, async () => {
    try {
      const target = { ...recorded(disk), stemcellApiVersion };
      await context.cpi.call("detachDisk", target, { vmCid: disk.vmCid, diskCid: disk.diskCid }, run);
    } catch (error) {
      if (!(error instanceof CpiCallError && error.isOf(...NOT_ATTACHED))) throw error;
    }
    await change(context, name, (current) => diskDetached(known(current)));
  });
}

/**
 * First, so that the VM lets go of the disk while it can still reach it. When the agent cannot be told, going on is
 * safe: the CPI takes the disk from the VM whether it let go or not.
 */
async function tellAgentToForget(context: JobContext, run: TaskRun, disk: Disk, agentId: string): Promise<void> {
  const stage = "Telling agent";
  const task = `${agentId} to forget ${disk.name}`;
  run.checkpoint();
  run.event({ stage, task, state: "started", message: "" });
  try {
    await tellAgent(
      context,
      run,
      agentId,
      "remove_dynamic_disk",
      [disk.diskCid],
      context.config.agents.detachTimeoutMs,
    );
    run.event({ stage, task, state: "finished", message: "" });
  } catch (error) {
    run.event({ stage, task, state: "failed", message: `${messageOf(error)}; the disk is detached all the same` });
    run.checkpoint();
  }
}

/** Deletes the disk and its record. */
export async function deleteDisk(context: JobContext, run: TaskRun, name: string): Promise<void> {
  await run.stage("Deleting disk", name, async () => {
    const disk = await context.tablet.transact((tx) => {
      const intended = intendDeleteDisk(known(tx.disks.get(name)));
      tx.disks.put(intended);
      return intended;
    });
    try {
      await context.cpi.call("deleteDisk", recorded(disk), { diskCid: disk.diskCid }, run);
    } catch (error) {
      if (!(error instanceof CpiCallError && error.isOf("DISK_NOT_FOUND"))) throw error;
    }
    await change(context, name, () => undefined);
  });
}
