import { parseCid } from "@diskmesh/cpi";
import { NotImplementedError } from "@diskmesh/domain";
import { CpiCallError, tolerate } from "../cpi/cpi-error.js";
import { formatInstance, type Instance } from "../model/instance.js";
import { type JsonObject, sameJson } from "../model/json.js";
import {
  intendPersistentDisk,
  type PersistentDisk,
  type PersistentDiskStep,
  persistentDiskChanged,
  persistentDiskOrphaned,
  persistentDisks,
  type WantedPersistentDisk,
} from "../model/persistent-disk.js";
import { persistentDiskOf } from "../model/recorded-deployments.js";
import type { TaskRun } from "../workers/task-run.js";
import { tellAgent } from "./agent-steps.js";
import { recorded } from "./cpi-target.js";
import { persistentDisk, tellToForget } from "./disk-steps.js";
import type { JobContext } from "./job-context.js";
import { manifestOf } from "./vm-spec.js";

/** Steps on an instance's persistent disk. All need the instance's lock. */

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
  if (step === "attach") await attachToVm(context, run, instance, disk);
  else if (step === "mount") await mount(context, run, instance, disk);
  else if (step === "detach") await unmountAndDetach(context, run, instance, disk, { mustUnmount: true });
  else if (step === "change" && wanted !== undefined) await changeDisk(context, run, instance, disk, wanted);
  else if (step === "orphan") {
    const nowMs = context.clock.nowMs();
    await run.stage("Orphan disk", disk.diskCid, () =>
      persistentDisk(context, run, disk.diskId).change((current) => persistentDiskOrphaned(current, nowMs)),
    );
    noteOrphaned(context, run, disk);
  }
}

/** Tells that a disk was left over. */
export function noteOrphaned(context: JobContext, { taskId }: TaskRun, disk: PersistentDisk): void {
  const deed = { action: "orphan", objectType: "disk", objectName: disk.diskCid };
  void context.events.record(deed, { taskId, deployment: disk.deployment, instance: formatInstance(disk) });
}

async function createPersistentDisk(
  context: JobContext,
  run: TaskRun,
  instance: Instance,
  existing: PersistentDisk | undefined,
  wanted: WantedPersistentDisk | undefined,
): Promise<void> {
  const madeFor = formatInstance(instance);
  await run.stage("Creating persistent disk", madeFor, async () => {
    const disk = intendPersistentDisk(existing, context.newId(), instance, wanted);
    await context.tablet.transact((tx) => tx.persistentDisks.put(disk));
    const { diskId, cloudProperties } = disk;
    const { vmCid } = instance;
    const begunBefore = existing !== undefined;
    const making = { token: diskId, madeFor, begunBefore, target: recorded(disk), cloudProperties, vmCid };
    await persistentDisk(context, run, diskId).make(disk, making);
  });
}

async function attachToVm(
  context: JobContext,
  run: TaskRun,
  instance: Instance,
  { diskId, diskCid }: PersistentDisk,
): Promise<void> {
  await run.stage("Attaching persistent disk", `${diskCid} to ${instance.vmCid}`, () =>
    persistentDisk(context, run, diskId).attach(diskCid, instance),
  );
}

/** The agent hears of the disk, then mounts it. Without a hint it looks the disk up in the bosh-registry. */
async function mount(context: JobContext, run: TaskRun, instance: Instance, disk: PersistentDisk): Promise<void> {
  const { agentId } = instance;
  const { attachTimeoutMs } = context.config.agents;
  const { diskCid, hint } = disk;
  const steps = persistentDisk(context, run, disk.diskId);
  await run.stage("Mounting persistent disk", `${diskCid} on ${formatInstance(instance)}`, async () => {
    if (hint !== null) await tellAgent(context, run, agentId, "add_persistent_disk", [diskCid, hint], attachTimeoutMs);
    await steps.setMetadata(disk, await metadataOf(context, instance));
    await tellAgent(context, run, agentId, "mount_disk", [diskCid], attachTimeoutMs, "error");
    await steps.change((current) => persistentDisks.moved(current, "mount"));
  });
}

async function metadataOf(context: JobContext, instance: Instance): Promise<JsonObject> {
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

/** An agent that says it cannot unmount the disk, e.g. because it is in use, can hold it back as long as its VM stays. */
async function unmountAndDetach(
  context: JobContext,
  run: TaskRun,
  { agentId, stemcellApiVersion }: Instance,
  { diskId, diskCid, vmCid }: PersistentDisk,
  { mustUnmount }: { readonly mustUnmount: boolean },
): Promise<void> {
  const steps = persistentDisk(context, run, diskId);
  await run.stage("Detaching persistent disk", `${diskCid} from ${vmCid}`, async () => {
    const { disk } = await steps.change((current) => persistentDisks.moved(current, "intend_detach"));
    const event = { stage: "Unmounting persistent disk", task: diskCid };
    if (agentId !== "")
      await tellToForget(run, event, unmount(context, run, agentId, diskCid), { mustLetGo: mustUnmount });
    await steps.detach(disk, stemcellApiVersion);
  });
}

async function unmount(context: JobContext, run: TaskRun, agentId: string, diskCid: string): Promise<void> {
  for (const method of ["unmount_disk", "remove_persistent_disk"])
    await tellAgent(context, run, agentId, method, [diskCid], context.config.agents.detachTimeoutMs);
}

/**
 * Detaches the instance's disk before its VM is deleted for good. It first finishes a creation that was begun: a disk
 * whose id nobody knows would be lost.
 */
export async function detachForGood(context: JobContext, run: TaskRun, instance: Instance): Promise<void> {
  const disk = await context.tablet.read((tables) => persistentDiskOf(tables, instance.instanceId));
  if (disk === undefined) return;
  if (disk.state === "creating") {
    // Refused: it surely is not there, and its record is gone.
    await tolerate(createPersistentDisk(context, run, instance, disk, undefined), (error) => error.refused);
  } else {
    await detachFromVm(context, run, instance, { mustUnmount: false });
  }
}

/** Detaches the instance's disk before its VM is made anew. */
export async function detachFromVm(
  context: JobContext,
  run: TaskRun,
  instance: Instance,
  options: { readonly mustUnmount: boolean },
): Promise<void> {
  const disk = await context.tablet.read((tables) => persistentDiskOf(tables, instance.instanceId));
  if (disk === undefined || disk.state === "creating" || disk.state === "detached") return;
  await unmountAndDetach(context, run, instance, disk, options);
}

/** Makes a detached disk larger, or of another type. When the CPI does not, the instance gets it back as it was. */
async function changeDisk(
  context: JobContext,
  run: TaskRun,
  instance: Instance,
  disk: PersistentDisk,
  wanted: WantedPersistentDisk,
): Promise<void> {
  const { sizeMib } = wanted;
  const { diskCid, diskId } = disk;
  try {
    await run.stage("Changing persistent disk", `${diskCid} to ${sizeMib} MiB`, async () => {
      const changed = { ...wanted, diskCid: await callChange(context, run, disk, wanted) };
      await persistentDisk(context, run, diskId).change((current) => persistentDiskChanged(current, changed));
    });
  } catch (error) {
    // What is not known to have been done is asked for again, by this task or the next.
    if (!(error instanceof CpiCallError && error.outcome === "not_done")) throw error;
    await attachToVm(context, run, instance, disk);
    const attached = await context.tablet.read((tables) => tables.persistentDisks.get(diskId));
    if (attached !== undefined) await mount(context, run, instance, attached);
    if (!error.isNotImplemented) throw error;
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
