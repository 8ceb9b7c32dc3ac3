import { parseCid } from "@diskmesh/cpi";
import { DomainError, messageOf, NotImplementedError } from "@diskmesh/domain";
import { AgentError } from "@diskmesh/mbus";
import { CpiCallError } from "../cpi/cpi-error.js";
import { cpiToRecord } from "../model/cpi-choice.js";
import { formatInstance, type Instance } from "../model/instance.js";
import { type Json, sameJson } from "../model/json.js";
import type { PersistentDisk, PersistentDiskStep, WantedPersistentDisk } from "../model/persistent-disk.js";
import { persistentDiskOf } from "../model/recorded-deployments.js";
import type { DirectorTransaction } from "../model/schema.js";
import type { TaskRun } from "../workers/task-run.js";
import { tellAgent } from "./agent-steps.js";
import { recorded } from "./cpi-target.js";
import type { JobContext } from "./job-context.js";
import { cpiFacts, makeOnce } from "./make-once.js";
import { manifestOf } from "./vm-spec.js";

/** Steps on an instance's persistent disk, in the manner of those on dynamic ones. All need the instance's lock. */

/** The instance has no use for the disk any more: it is kept until an operator deletes it. */
export function orphaned(disk: PersistentDisk, nowMs: number): PersistentDisk {
  return { ...disk, orphanedAtMs: nowMs };
}

async function change(
  context: JobContext,
  diskId: string,
  next: (disk: PersistentDisk) => PersistentDisk | undefined,
): Promise<PersistentDisk | undefined> {
  return context.tablet.transact((tx) => {
    const disk = tx.persistentDisks.get(diskId);
    // The lock is held: nobody else can have deleted it.
    if (disk === undefined) throw new TypeError("a persistent disk vanished while its instance was locked");
    const changed = next(disk);
    if (changed === undefined) tx.persistentDisks.delete(diskId);
    else tx.persistentDisks.put(changed);
    return changed;
  });
}

export interface PersistentDiskWork {
  readonly instance: Instance;
  readonly disk: PersistentDisk | undefined;
  readonly wanted: WantedPersistentDisk | undefined;
  readonly step: PersistentDiskStep;
}

export async function runPersistentDiskStep(
  context: JobContext,
  run: TaskRun,
  work: PersistentDiskWork,
): Promise<void> {
  const { instance, disk, wanted, step } = work;
  if (step === "create") return createPersistentDisk(context, run, instance, disk, wanted);
  if (disk === undefined) throw new TypeError(`a disk that is not there cannot ${step}`);
  if (step === "attach") await attach(context, run, instance, disk);
  else if (step === "mount") await mount(context, run, instance, disk);
  else if (step === "detach") await detach(context, run, instance, disk, { mustUnmount: true });
  else if (step === "change" && wanted !== undefined) await changeDisk(context, run, instance, disk, wanted);
  else if (step === "orphan") {
    await run.stage("Orphan disk", disk.diskCid, () =>
      change(context, disk.diskId, (current) => orphaned(current, context.clock.nowMs())),
    );
  }
}

async function createPersistentDisk(
  context: JobContext,
  run: TaskRun,
  instance: Instance,
  existing: PersistentDisk | undefined,
  wanted: WantedPersistentDisk | undefined,
): Promise<void> {
  const { instanceId, deployment, group, az, cpi } = instance;
  await run.stage("Creating persistent disk", formatInstance(instance), async () => {
    const disk = existing ?? intended();
    if (existing === undefined) await context.tablet.transact((tx) => tx.persistentDisks.put(disk));
    const { sizeMib, cloudProperties, diskId: token } = disk;
    const { findsByToken } = await cpiFacts(context, run, recorded(disk));
    const madeFor = formatInstance(instance);
    const begunBefore = existing !== undefined;
    const place = { cpi: disk.cpi, az, deployment, madeFor };
    const drop = (tx: DirectorTransaction) => tx.persistentDisks.delete(disk.diskId);
    const making = { kind: "disk", token, ...place, findsByToken, begunBefore, drop } as const;
    const request = { sizeMib, cloudProperties: { ...cloudProperties }, vmCid: instance.vmCid, az, token };
    const made = await makeOnce(context, run, making, (options) =>
      context.cpi.call("createDisk", recorded(disk), request, run, options),
    );
    if (made === undefined) return;
    const diskCid = parseCid("disk", made.diskCid);
    await change(context, disk.diskId, (current) => ({
      ...current,
      state: "detached",
      diskCid,
      cpi: cpiToRecord(current.cpi, made.cpi),
    }));
  });

  function intended(): PersistentDisk {
    if (wanted === undefined) throw new TypeError("a disk that nobody wants cannot be created");
    const place = { deployment, group, instanceId, az, cpi, vmCid: "", hint: null, orphanedAtMs: null };
    return { diskId: context.newId(), ...place, ...wanted, state: "creating", diskCid: "" };
  }
}

async function attach(context: JobContext, run: TaskRun, instance: Instance, disk: PersistentDisk): Promise<void> {
  const { vmCid, stemcellApiVersion } = instance;
  await run.stage("Attaching persistent disk", `${disk.diskCid} to ${vmCid}`, async () => {
    await change(context, disk.diskId, (current) => ({ ...current, state: "attaching", vmCid, hint: null }));
    const target = { ...recorded(disk), stemcellApiVersion };
    const { diskHint } = await context.cpi.call("attachDisk", target, { vmCid, diskCid: disk.diskCid }, run);
    const hint = (diskHint ?? null) as Json;
    await change(context, disk.diskId, (current) => ({ ...current, state: "attached", hint }));
  });
}

/** The agent hears of the disk, then mounts it. Without a hint it looks the disk up in the bosh-registry. */
async function mount(context: JobContext, run: TaskRun, instance: Instance, disk: PersistentDisk): Promise<void> {
  const { agentId } = instance;
  const { attachTimeoutMs } = context.config.agents;
  const { diskCid, hint } = disk;
  await run.stage("Mounting persistent disk", `${diskCid} on ${formatInstance(instance)}`, async () => {
    if (hint !== null) await tellAgent(context, run, agentId, "add_persistent_disk", [diskCid, hint], attachTimeoutMs);
    await setMetadata(context, run, instance, disk);
    await tellAgent(context, run, agentId, "mount_disk", [diskCid], attachTimeoutMs, "error");
    await change(context, disk.diskId, (current) => ({ ...current, state: "mounted" }));
  });
}

async function setMetadata(context: JobContext, run: TaskRun, instance: Instance, disk: PersistentDisk): Promise<void> {
  const { deployment, instanceId, index, group } = instance;
  const { tags } = await context.tablet.read((tables) => manifestOf(context, tables, deployment));
  const metadata = {
    ...tags,
    director: context.config.name,
    deployment,
    instance_id: instanceId,
    instance_index: String(index),
    instance_group: group,
    attached_at: new Date(context.clock.nowMs()).toISOString(),
  };
  try {
    await context.cpi.call("setDiskMetadata", recorded(disk), { diskCid: disk.diskCid, metadata }, run);
  } catch (error) {
    // Optional in the CPI contract.
    if (!(error instanceof CpiCallError && error.cause instanceof NotImplementedError)) throw error;
  }
}

/** CPI errors after which a disk is surely not attached to that VM. */
const NOT_ATTACHED = ["DISK_NOT_ATTACHED", "VM_NOT_FOUND", "DISK_NOT_FOUND"] as const;

async function detach(
  context: JobContext,
  run: TaskRun,
  instance: Instance,
  disk: PersistentDisk,
  options: { readonly mustUnmount: boolean },
): Promise<void> {
  await run.stage("Detaching persistent disk", `${disk.diskCid} from ${disk.vmCid}`, async () => {
    await change(context, disk.diskId, (current) => ({ ...current, state: "detaching" }));
    if (instance.agentId !== "") await unmount(context, run, instance, disk, options);
    const target = { ...recorded(disk), stemcellApiVersion: instance.stemcellApiVersion };
    try {
      await context.cpi.call("detachDisk", target, { vmCid: disk.vmCid, diskCid: disk.diskCid }, run);
    } catch (error) {
      if (!(error instanceof CpiCallError && error.isOf(...NOT_ATTACHED))) throw error;
    }
    await change(context, disk.diskId, (current) => ({ ...current, state: "detached", vmCid: "", hint: null }));
  });
}

/**
 * An agent that is away cannot hold the disk back for ever. One that says it cannot unmount the disk, e.g. because it is
 * in use, can, as long as its VM stays.
 */
async function unmount(
  context: JobContext,
  run: TaskRun,
  instance: Instance,
  disk: PersistentDisk,
  { mustUnmount }: { readonly mustUnmount: boolean },
): Promise<void> {
  const { detachTimeoutMs } = context.config.agents;
  try {
    for (const method of ["unmount_disk", "remove_persistent_disk"])
      await tellAgent(context, run, instance.agentId, method, [disk.diskCid], detachTimeoutMs);
  } catch (error) {
    run.checkpoint();
    if (!(error instanceof DomainError)) throw error;
    const unknownThere = error instanceof AgentError && error.agentMessage.includes("could not be found");
    if (error instanceof AgentError && mustUnmount && !unknownThere) throw error;
    run.event({
      stage: "Unmounting persistent disk",
      task: disk.diskCid,
      state: "failed",
      message: `${messageOf(error)}; the disk is detached all the same`,
    });
  }
}

/** Before the instance's VM is deleted. What may have been created is found out, or it would be lost. */
export async function detachForGood(context: JobContext, run: TaskRun, instance: Instance): Promise<void> {
  const disk = await context.tablet.read((tables) => persistentDiskOf(tables, instance.instanceId));
  if (disk === undefined) return;
  if (disk.state === "creating") {
    await createPersistentDisk(context, run, instance, disk, undefined).catch((error: unknown) => {
      // It surely is not there, and its record is gone.
      if (!(error instanceof CpiCallError && error.refused)) throw error;
    });
  } else {
    await detachFromVm(context, run, instance, { mustUnmount: false });
  }
}

/** Before the instance's VM is made anew. */
export async function detachFromVm(
  context: JobContext,
  run: TaskRun,
  instance: Instance,
  options: { readonly mustUnmount: boolean },
): Promise<void> {
  const disk = await context.tablet.read((tables) => persistentDiskOf(tables, instance.instanceId));
  if (disk === undefined || disk.state === "creating" || disk.state === "detached") return;
  await detach(context, run, instance, disk, options);
}

/** Makes a detached disk larger, or of another type. When the CPI does not, the instance gets it back as it was. */
async function changeDisk(
  context: JobContext,
  run: TaskRun,
  instance: Instance,
  disk: PersistentDisk,
  wanted: WantedPersistentDisk,
): Promise<void> {
  const { sizeMib, cloudProperties } = wanted;
  const { diskCid, diskId } = disk;
  try {
    await run.stage("Changing persistent disk", `${diskCid} to ${sizeMib} MiB`, async () => {
      const newCid = await callChange(context, run, disk, wanted);
      await change(context, diskId, (current) => ({ ...current, sizeMib, cloudProperties, diskCid: newCid }));
    });
  } catch (error) {
    // What is not known to have been done is asked for again, by this task or the next.
    if (!(error instanceof CpiCallError && error.outcome === "not_done")) throw error;
    await attach(context, run, instance, disk);
    const attached = await context.tablet.read((tables) => tables.persistentDisks.get(diskId));
    if (attached !== undefined) await mount(context, run, instance, attached);
    if (!(error.cause instanceof NotImplementedError)) throw error;
    throw new NotImplementedError(
      `the CPI of persistent disk \`${diskCid}\` cannot change disks (${error.message}): keep its size and type, or remove it first, which leaves it as an orphan`,
      { cause: error, about: { disk_cid: diskCid } },
    );
  }
}

/** Returns the disk's id from then on. */
async function callChange(
  context: JobContext,
  run: TaskRun,
  disk: PersistentDisk,
  wanted: WantedPersistentDisk,
): Promise<string> {
  const { diskCid } = disk;
  const { sizeMib } = wanted;
  if (sameJson(disk.cloudProperties, wanted.cloudProperties)) {
    await context.cpi.call("resizeDisk", recorded(disk), { diskCid, sizeMib }, run);
    return diskCid;
  }
  const request = { diskCid, sizeMib, cloudProperties: { ...wanted.cloudProperties } };
  const updated = await context.cpi.call("updateDisk", recorded(disk), request, run);
  return updated.diskCid === "" ? diskCid : parseCid("disk", updated.diskCid);
}
