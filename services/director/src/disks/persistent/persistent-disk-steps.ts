import { randomUUID } from "node:crypto";
import { parseCid } from "@diskmesh/cpi";
import { NotImplementedError } from "@diskmesh/domain";
import { groupOf, manifestOf } from "../../configs/recorded-manifest.js";
import { CpiCallError, tolerate } from "../../cpi/cpi-error.js";
import { recorded } from "../../cpi/cpi-target.js";
import { refuseGivenTwice } from "../../cpi/given-cids.js";
import { agentToTell } from "../../instances/instance.js";
import { otherDiskOf, persistentDiskOf } from "../../instances/recorded-deployments.js";
import { realSize } from "../../store/disk.js";
import { formatInstance, type Instance } from "../../store/instance.js";
import { type JsonObject, sameJson } from "../../store/json.js";
import type { PersistentDisk } from "../../store/persistent-disk.js";
import type { DirectorTables } from "../../store/schema.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";
import { DiskSteps, requestRelease } from "../disk-steps.js";
import { isHostLost } from "../lost-host.js";
import { deletePersistentDisk } from "./delete-orphaned-disk.js";
import {
  type CopyStep,
  copied,
  decidePersistentDisk,
  intendCopy,
  intendPersistentDisk,
  isCopyStep,
  type PersistentDiskStep,
  persistentDiskChanged,
  persistentDiskOrphaned,
  persistentDisks,
  type WantedPersistentDisk,
  wantedPersistentDisk,
} from "./persistent-disk.js";

/** Steps on an instance's persistent disk. All steps need the lock of the instance. */

export interface PersistentDiskWork {
  readonly instance: Instance;
  readonly disk: PersistentDisk | undefined;
  /** The second disk of the instance while data is copied. */
  readonly other: PersistentDisk | undefined;
  readonly wanted: WantedPersistentDisk | undefined;
  readonly step: PersistentDiskStep;
}

/** Returns a function that returns the next work on an instance's persistent disk. */
export function persistentDiskWorkOf(
  context: DiskJobContext,
  tables: DirectorTables,
  deployment: string,
): (instance: Instance) => PersistentDiskWork {
  const config = context.configs.cloud.current(tables);
  const manifest = manifestOf(context, tables, deployment);
  return (instance) => {
    const wanted = wantedPersistentDisk(groupOf(manifest, instance), config);
    const disk = persistentDiskOf(tables, instance.instanceId);
    const other = otherDiskOf(tables, instance.instanceId);
    return { instance, disk, other, wanted, step: decidePersistentDisk(disk, wanted, other) };
  };
}

export async function runPersistentDiskStep(
  context: DiskJobContext,
  run: TaskRun,
  work: PersistentDiskWork,
): Promise<void> {
  const { instance, disk, other, wanted, step } = work;
  if (step === "create") return createPersistentDisk(context, run, instance, disk, wanted);
  if (other !== undefined && isCopyStep(step)) return runCopyStep(context, run, { instance, disk, other, step });
  if (disk === undefined) throw new TypeError(`step ${step} needs a recorded persistent disk`);
  if (step === "attach") await attachToVm(context, run, instance, disk);
  else if (step === "mount") await mount(context, run, instance, disk);
  else if (step === "detach") await unmountAndDetach(context, run, instance, disk, { mustUnmount: true });
  else if (step === "change" && wanted !== undefined) await changeDisk(context, run, instance, disk, wanted);
  else if (step === "orphan") await orphan(context, run, disk);
}

/** Records an event for an orphaned disk. */
export function noteOrphaned(context: DiskJobContext, { taskId }: TaskRun, disk: PersistentDisk): void {
  const deed = { action: "orphan", objectType: "disk", objectName: disk.diskCid };
  void context.events.record(deed, { taskId, deployment: disk.deployment, instance: formatInstance(disk) });
}

async function createPersistentDisk(
  context: DiskJobContext,
  run: TaskRun,
  instance: Instance,
  existing: PersistentDisk | undefined,
  wanted: WantedPersistentDisk | undefined,
): Promise<void> {
  await run.stage("Creating persistent disk", formatInstance(instance), async () => {
    const disk = intendPersistentDisk(existing, randomUUID(), instance, wanted);
    await context.tablet.transact((tx) => tx.persistentDisks.put(disk));
    await makeDisk(context, run, instance, disk, { begunBefore: existing !== undefined });
  });
}

async function makeDisk(
  context: DiskJobContext,
  run: TaskRun,
  instance: Instance,
  disk: PersistentDisk,
  { begunBefore }: { readonly begunBefore: boolean },
): Promise<void> {
  const { diskId, cloudProperties } = disk;
  const { vmCid } = instance;
  const madeFor = formatInstance(instance);
  const making = { token: diskId, madeFor, begunBefore, target: recorded(disk), cloudProperties, vmCid };
  await persistentDisk(context, run, diskId).make(disk, making);
}

async function attachToVm(
  context: DiskJobContext,
  run: TaskRun,
  instance: Instance,
  { diskId, diskCid }: PersistentDisk,
): Promise<void> {
  await run.stage("Attaching persistent disk", `${diskCid} to ${instance.vmCid}`, () =>
    persistentDisk(context, run, diskId).attach(diskCid, instance),
  );
}

/**
 * Notifies the agent of the disk and has the agent mount it. Without a hint the agent reads the disk from the
 * bosh-registry.
 */
async function mount(context: DiskJobContext, run: TaskRun, instance: Instance, disk: PersistentDisk): Promise<void> {
  const { agentId } = instance;
  const { attachTimeoutMs } = context.limits.agents;
  const { diskCid, hint } = disk;
  const steps = persistentDisk(context, run, disk.diskId);
  await run.stage("Mounting persistent disk", `${diskCid} on ${formatInstance(instance)}`, async () => {
    if (hint !== null)
      await context.agents.notify(run, agentId, "add_persistent_disk", [diskCid, hint], attachTimeoutMs);
    await steps.setMetadata(disk, await metadataOf(context, instance));
    await context.agents.notify(run, agentId, "mount_disk", [diskCid], attachTimeoutMs, "error");
    await steps.change((current) => persistentDisks.moved(current, "mount"));
  });
}

/** Runs a step on the instance's second disk during a copy. */
async function runCopyStep(
  context: DiskJobContext,
  run: TaskRun,
  {
    instance,
    disk,
    other,
    step,
  }: Pick<PersistentDiskWork, "instance" | "disk"> & {
    readonly other: PersistentDisk;
    readonly step: CopyStep;
  },
): Promise<void> {
  if (step === "create_next") await createCopy(context, run, instance, disk, { next: other, wanted: other });
  else if (step === "attach_next") await attachToVm(context, run, instance, other);
  else if (step === "detach_other") await detachOther(context, run, instance, disk, other);
  else if (step === "delete_next") await deleteUnused(context, run, other);
  else if (step === "orphan_former") await orphan(context, run, other);
  else if (disk !== undefined) await migrate(context, run, instance, disk, other);
}

/**
 * Detaches the second disk. An earlier task may have copied data to the second disk without receiving the answer. The
 * agent has then unmounted the own disk of the instance, or has remounted the own disk read-only after a failed copy.
 * So the own disk is also detached and mounted again.
 */
async function detachOther(
  context: DiskJobContext,
  run: TaskRun,
  instance: Instance,
  disk: PersistentDisk | undefined,
  other: PersistentDisk,
): Promise<void> {
  if (other.role === "next" && disk?.state === "mounted")
    await persistentDisk(context, run, disk.diskId).change((now) => persistentDisks.moved(now, "intend_detach"));
  await unmountAndDetach(context, run, instance, other, { mustUnmount: true });
}

/** Creates the disk to which the mounted disk will be copied. `next` is the record of a creation that has begun. */
async function createCopy(
  context: DiskJobContext,
  run: TaskRun,
  instance: Instance,
  disk: PersistentDisk | undefined,
  { next, wanted }: { readonly next: PersistentDisk | undefined; readonly wanted: WantedPersistentDisk },
): Promise<void> {
  const task = `${formatInstance(instance)}${disk === undefined ? "" : `, to copy ${disk.diskCid}`}`;
  await run.stage("Creating persistent disk", task, async () => {
    const made = next ?? intendCopy(instance, randomUUID(), wanted);
    await context.tablet.transact((tx) => tx.persistentDisks.put(made));
    await makeDisk(context, run, instance, made, { begunBefore: next !== undefined });
  });
}

async function deleteUnused(context: DiskJobContext, run: TaskRun, next: PersistentDisk): Promise<void> {
  const remove = () => deletePersistentDisk(context, run, next);
  await run.stage("Deleting unused persistent disk", next.diskCid, remove);
}

async function orphan(context: DiskJobContext, run: TaskRun, disk: PersistentDisk): Promise<void> {
  const nowMs = context.clock.nowMs();
  await run.stage("Orphan disk", disk.diskCid, () =>
    persistentDisk(context, run, disk.diskId).change((current) => persistentDiskOrphaned(current, nowMs)),
  );
  noteOrphaned(context, run, disk);
}

/** Has the agent copy the mounted disk to the new disk and mount the new disk instead. */
async function migrate(
  context: DiskJobContext,
  run: TaskRun,
  instance: Instance,
  disk: PersistentDisk,
  next: PersistentDisk,
): Promise<void> {
  const { agentId } = instance;
  const { attachTimeoutMs } = context.limits.agents;
  const { diskCid, hint } = next;
  try {
    await run.stage("Migrating persistent disk", `${disk.diskCid} to ${diskCid}`, async () => {
      if (hint !== null)
        await context.agents.notify(run, agentId, "add_persistent_disk", [diskCid, hint], attachTimeoutMs);
      await persistentDisk(context, run, next.diskId).setMetadata(next, await metadataOf(context, instance));
      if (!(await isMigrated(context, run, agentId, disk, next))) {
        await context.agents.notify(run, agentId, "mount_disk", [diskCid], attachTimeoutMs, "error");
        await callMigrate(context, run, agentId, disk, next);
      }
      await context.tablet.transact((tx) => {
        const { former, present } = copied(disk, next);
        tx.persistentDisks.put(former);
        tx.persistentDisks.put(present);
      });
    });
  } catch (error) {
    if (!(error instanceof NotImplementedError)) throw error;
    // The new disk can be deleted, because it holds no data yet.
    await unmountAndDetach(context, run, instance, next, { mustUnmount: true });
    await deleteUnused(context, run, next);
    throw new NotImplementedError(
      `persistent disk \`${disk.diskCid}\` cannot be changed or replaced: its CPI cannot change disks, and agent ${agentId} cannot copy disks (${error.message}): keep the disk's size and type, or remove the disk first, which orphans it`,
      { cause: error, about: { disk_cid: disk.diskCid } },
    );
  }
}

/**
 * Resolves with true when the copy of an earlier call succeeded without an answer. A second copy would overwrite new
 * content with old content.
 */
async function isMigrated(
  { agents, limits }: DiskJobContext,
  run: TaskRun,
  agentId: string,
  disk: PersistentDisk,
  next: PersistentDisk,
): Promise<boolean> {
  const timeoutMs = limits.agents.attachTimeoutMs;
  const mounted = await agents.call(agentId, "list_disk", [], { signal: run.stopped, timeoutMs });
  return Array.isArray(mounted) && mounted.includes(next.diskCid) && !mounted.includes(disk.diskCid);
}

/**
 * Calls migrate_disk once, without retries, because a second copy could overwrite new content. The call may take as
 * long as the task.
 */
async function callMigrate(
  { agents, limits, tablet }: DiskJobContext,
  run: TaskRun,
  agentId: string,
  disk: PersistentDisk,
  next: PersistentDisk,
): Promise<void> {
  tablet.checkMayAct();
  const options = { signal: run.stopped, timeoutMs: limits.queues.timeoutsMs.normal };
  await run.whileAlive(agents.call(agentId, "migrate_disk", [disk.diskCid, next.diskCid], options));
}

async function metadataOf(context: DiskJobContext, instance: Instance): Promise<JsonObject> {
  const { deployment, instanceId, index, group } = instance;
  const { tags } = await context.tablet.read((tables) => manifestOf(context, tables, deployment));
  return {
    ...tags,
    director: context.config.name,
    deployment,
    instance_id: instanceId,
    instance_index: String(index),
    instance_group: group,
    attached_at: new Date(context.clock.nowMs()).toISOString(),
  };
}

/**
 * Unmounts and detaches a disk, in this order, because an unmount writes data. With `mustUnmount`, an error from the
 * agent, for example for a disk in use, stops the detach.
 */
async function unmountAndDetach(
  context: DiskJobContext,
  run: TaskRun,
  instance: Instance,
  { diskId, diskCid, vmCid }: PersistentDisk,
  { mustUnmount }: { readonly mustUnmount: boolean },
): Promise<void> {
  const steps = persistentDisk(context, run, diskId);
  await run.stage("Detaching persistent disk", `${diskCid} from ${vmCid}`, async () => {
    const { disk } = await steps.change((current) => persistentDisks.moved(current, "intend_detach"));
    const event = { stage: "Unmounting persistent disk", task: diskCid };
    const agentId = agentToTell(instance);
    if (agentId !== "" && !(await isHostLost(context, run, agentId, disk)))
      await requestRelease(run, event, unmount(context, run, agentId, diskCid), { mustLetGo: mustUnmount });
    await steps.detach(disk, instance.stemcellApiVersion);
    await context.tablet.transact((tx) => steps.detachedIn(tx));
  });
}

export async function unmount(context: DiskJobContext, run: TaskRun, agentId: string, diskCid: string): Promise<void> {
  for (const method of ["unmount_disk", "remove_persistent_disk"])
    await context.agents.notify(run, agentId, method, [diskCid], context.limits.agents.detachTimeoutMs);
}

/**
 * Detaches the instance's disks before its VM is deleted for good. Finishes begun creations first, because a disk with
 * an unknown CID would be lost.
 */
export async function detachForGood(context: DiskJobContext, run: TaskRun, instance: Instance): Promise<void> {
  const { instanceId } = instance;
  const { disk, other } = await disksOf(context, instanceId);
  // A CPI that refuses the repeated creation shows that the disk does not exist. `makeOnce` has then removed the
  // record.
  if (disk?.state === "creating")
    await tolerate(createPersistentDisk(context, run, instance, disk, undefined), (error) => error.refused);
  if (other?.state === "creating")
    await tolerate(makeDisk(context, run, instance, other, { begunBefore: true }), (error) => error.refused);
  await detachFromVm(context, run, instance, { mustUnmount: false });
  const left = (await disksOf(context, instanceId)).other;
  if (left !== undefined) await orphan(context, run, left);
}

/** Detaches the instance's disks before its VM is recreated. */
export async function detachFromVm(
  context: DiskJobContext,
  run: TaskRun,
  instance: Instance,
  options: { readonly mustUnmount: boolean },
): Promise<void> {
  const { disk, other } = await disksOf(context, instance.instanceId);
  for (const each of [other, disk])
    if (each !== undefined && each.state !== "creating" && each.state !== "detached")
      await unmountAndDetach(context, run, instance, each, options);
}

function disksOf(context: DiskJobContext, instanceId: string) {
  return context.tablet.read((tables) => ({
    disk: persistentDiskOf(tables, instanceId),
    other: otherDiskOf(tables, instanceId),
  }));
}

/**
 * Resizes a detached disk or changes its type. When the CPI refuses, the unchanged disk is attached again. When the CPI
 * does not implement the change, the data is copied to a new disk.
 */
async function changeDisk(
  context: DiskJobContext,
  run: TaskRun,
  instance: Instance,
  disk: PersistentDisk,
  wanted: WantedPersistentDisk,
): Promise<void> {
  const { sizeMib } = wanted;
  const { diskCid, diskId } = disk;
  const reattach = async (): Promise<void> => {
    await attachToVm(context, run, instance, disk);
    const attached = await context.tablet.read((tables) => tables.persistentDisks.get(diskId));
    if (attached !== undefined) await mount(context, run, instance, attached);
  };
  let isChanged: boolean;
  try {
    isChanged = await run.stage("Changing persistent disk", `${diskCid} to ${sizeMib} MiB`, async () => {
      const answer = await callChange(context, run, disk, wanted);
      if (answer === undefined) return false;
      const changed = { ...wanted, ...answer };
      await persistentDisk(context, run, diskId).change((current, tx) => {
        const given = { kind: "disk", cpi: current.cpi, cid: changed.diskCid } as const;
        if (given.cid !== diskCid) refuseGivenTwice(context, tx, given);
        return persistentDiskChanged(current, changed);
      });
      return true;
    });
  } catch (error) {
    // A call with an unknown outcome is repeated by this task or the next task.
    if (error instanceof CpiCallError && error.outcome === "not_done") await reattach();
    throw error;
  }
  if (isChanged) return;
  await reattach();
  await createCopy(context, run, instance, disk, { next: undefined, wanted });
}

/** Returns the disk's CID and size after the change; undefined when the CPI does not implement the change. */
async function callChange(
  context: DiskJobContext,
  run: TaskRun,
  disk: PersistentDisk,
  wanted: WantedPersistentDisk,
): Promise<Pick<PersistentDisk, "diskCid" | "realSizeBytes"> | undefined> {
  const { diskCid } = disk;
  const { sizeMib } = wanted;
  if (sameJson(disk.cloudProperties, wanted.cloudProperties)) {
    const resized = await context.cpi.callIfKnown("resizeDisk", recorded(disk), { diskCid, sizeMib }, run);
    return resized && { diskCid, ...realSize(resized.sizeBytes) };
  }
  const request = { diskCid, sizeMib, cloudProperties: { ...wanted.cloudProperties } };
  const updated = await context.cpi.callIfKnown("updateDisk", recorded(disk), request, run);
  if (updated === undefined) return undefined;
  return { diskCid: updated.diskCid === "" ? diskCid : parseCid("disk", updated.diskCid), ...realSize(0) };
}

export function persistentDisk(context: DiskJobContext, run: TaskRun, diskId: string): DiskSteps<PersistentDisk> {
  return new DiskSteps(context, run, persistentDisks, diskId, (tx) => tx.persistentDisks);
}
