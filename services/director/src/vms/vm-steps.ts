import { InvalidStateError, TimeoutError } from "@diskmesh/domain";
import { manifestOf } from "../configs/recorded-manifest.js";
import type { RepeatOptions } from "../cpi/cpi-calls.js";
import { CpiCallError, tolerate } from "../cpi/cpi-error.js";
import { recorded } from "../cpi/cpi-target.js";
import { deleteObject } from "../cpi/delete-object.js";
import { cpiFacts, makeOnce, putPossibleOrphan, recordMade } from "../cpi/make-once.js";
import { detachDisk } from "../disks/dynamic/detach.js";
import { forgetOwedRemovals } from "../disks/forget.js";
import { persistentDiskOrphaned } from "../disks/persistent/persistent-disk.js";
import { detachForGood, detachFromVm, noteOrphaned } from "../disks/persistent/persistent-disk-steps.js";
import {
  agentAnswered,
  intendCreateVm,
  intendDeleteVm,
  type MadeVm,
  memberOf,
  vmCreated,
  vmDeleted,
  vmLost,
  vmNotCreated,
} from "../instances/instance.js";
import { changeIn, changeInstance } from "../instances/instance-record.js";
import { persistentDiskOf, takeAddresses } from "../instances/recorded-deployments.js";
import { cpiToRecord } from "../specs/cpi-choice.js";
import { formatInstance, type Instance } from "../store/instance.js";
import type { JsonObject } from "../store/json.js";
import type { DirectorTransaction } from "../store/schema.js";
import type { TaskRun } from "../tasks/task-run.js";
import { envOfAgent } from "./agent-certificate.js";
import type { VmJobContext } from "./context.js";
import { applyTo, introduceAgent } from "./introduce-agent.js";
import { stopJobs } from "./job-steps.js";
import { cpiFor, intentOf } from "./vm-spec.js";

/** Steps on an instance's VM. Every step requires the instance's lock. */

/** Maximum create_vm calls with the same agent id, as in BOSH. */
const MAX_CREATE_TRIES = 5;

export async function createVm(context: VmJobContext, run: TaskRun, instance: Instance): Promise<void> {
  const { instanceId } = instance;
  await run.stage("Creating missing vms", formatInstance(instance), async () => {
    const begunBefore = instance.vmState === "creating";
    const { intended, findsByToken } = await intend(context, run, instance);
    const { cpi, az, deployment, vmToken: token } = intended;
    const place = { cpi, az, deployment, madeFor: formatInstance(instance) };
    const drop = (tx: DirectorTransaction) => changeIn(tx, instanceId, vmNotCreated);
    const making = { kind: "vm", token, ...place, findsByToken, begunBefore, drop } as const;
    const vm = await makeOnce(context, run, making, (options) => callCreateVm(context, run, intended, options));
    if (vm === undefined) return;
    const made = { ...vm, cpi: cpiToRecord(intended.cpi, vm.cpi), vmCreatedAtMs: context.clock.nowMs() };
    await recordMade(context, run, making, { ...made, cid: vm.vmCid }, (tx) =>
      changeIn(tx, instanceId, (current) => vmCreated(current, made)),
    );
  });
}

/** Records the create_vm arguments, unless an earlier attempt recorded them. */
async function intend(
  context: VmJobContext,
  run: TaskRun,
  instance: Instance,
): Promise<{ readonly intended: Instance; readonly findsByToken: boolean }> {
  const isIntended = instance.vmState === "creating";
  const cpi = isIntended ? instance.cpi : await context.tablet.read((tables) => cpiFor(context, tables, instance));
  const { apiVersion, findsByToken } = await cpiFacts(context, run, { cpi, az: instance.az, azCpi: cpi });
  if (isIntended) return { intended: instance, findsByToken };
  const intended = await changeInstance(context, instance.instanceId, (current, tx) => {
    const next = intendCreateVm(current, intentOf(context, tx, current, apiVersion));
    takeAddresses(tx, next);
    return next;
  });
  return { intended, findsByToken };
}

async function callCreateVm(
  context: VmJobContext,
  run: TaskRun,
  intended: Instance,
  options: RepeatOptions,
): Promise<MadeVm> {
  const { cpi, az, vmToken: agentId, stemcellApiVersion, vmSpec } = intended;
  if (vmSpec === null) throw new TypeError("a vm is being created without a recorded vmSpec");
  const disk = await context.tablet.read((tables) => persistentDiskOf(tables, intended.instanceId));
  const request = {
    agentId,
    stemcellCid: vmSpec.stemcellCid,
    cloudProperties: { ...vmSpec.cloudProperties },
    networks: { ...vmSpec.networks },
    diskCids: disk === undefined || disk.diskCid === "" ? [] : [disk.diskCid],
    env: await envOfAgent(context, intended, vmSpec.env),
    az,
  };
  for (let tries = 1; ; tries++) {
    try {
      const target = { cpi, az, azCpi: cpi, stemcellApiVersion };
      const vm = await context.cpi.call("createVm", target, request, run, options);
      const { vmCid, agentId, cpi: maker, usesRegistry, networks, apiVersion } = vm;
      const settled = (networks ?? {}) as JsonObject;
      return { vmCid, agentId, cpi: maker, usesRegistry, cpiApiVersion: apiVersion, networks: settled };
    } catch (error) {
      if (!(error instanceof CpiCallError && error.mayRetryVm) || tries >= MAX_CREATE_TRIES) throw error;
      run.checkpoint();
    }
  }
}

export async function awaitVm(context: VmJobContext, run: TaskRun, instance: Instance): Promise<void> {
  const { instanceId, agentId } = instance;
  await setVmMetadata(context, run, instance);
  await run.stage("Waiting for agents", formatInstance(instance), async () => {
    try {
      await context.agents.awaitAnswer(run, agentId, context.config.agents.readyTimeoutMs);
      await introduceAgent(context, run, instance);
    } catch (error) {
      // The VM stays for inspection. The next deploy gives the VM another chance and then recreates it.
      if (error instanceof TimeoutError) await changeInstance(context, instanceId, vmLost);
      throw error;
    }
    await changeInstance(context, instanceId, agentAnswered);
  });
}

/** Sends the VM's current metadata to the CPI and its spec to the agent. */
export async function describeVm(context: VmJobContext, run: TaskRun, instance: Instance): Promise<void> {
  await applyTo(context, run, instance);
  await setVmMetadata(context, run, instance);
}

/** Sets the VM's identity and the manifest's tags as metadata in the infrastructure. */
async function setVmMetadata(context: VmJobContext, run: TaskRun, instance: Instance): Promise<void> {
  const { instanceId, deployment, group, index, vmCid } = instance;
  await run.stage("Setting vm metadata", formatInstance(instance), async () => {
    const { tags } = await context.tablet.read((tables) => manifestOf(context, tables, deployment));
    const metadata = {
      ...tags,
      director: context.config.name,
      deployment,
      id: instanceId,
      job: group,
      instance_group: group,
      index: String(index),
      name: formatInstance(instance),
      created_at: new Date(context.clock.nowMs()).toISOString(),
    };
    await context.cpi.callIfKnown("setVmMetadata", recorded(instance), { vmCid, metadata }, run);
    await changeInstance(context, instanceId, (current) => ({
      ...current,
      basis: current.basis ? { ...current.basis, tags, member: memberOf(current) } : null,
    }));
  });
}

export interface DeletionOptions {
  /** Skips pre-stop and drain. */
  readonly skipDrain?: boolean;
  /** The task that requested the change, recorded so that the change happens once. */
  readonly changedByTaskId?: number | undefined;
}

/** Deletes an outdated VM; the instance and its disks stay. Also requires the locks of the dynamic disks. */
export async function deleteOutdatedVm(
  context: VmJobContext,
  run: TaskRun,
  instance: Instance,
  because: string,
  { skipDrain = false, changedByTaskId }: DeletionOptions = {},
): Promise<void> {
  if (instance.vmState === "running") await stopJobs(context, run, instance, { intent: "delete_vm", skipDrain });
  // Detached first: a VM whose agent cannot unmount its disk is kept.
  await detachFromVm(context, run, instance, { mustUnmount: instance.vmState === "running" });
  await deleteVm(context, run, instance, { stage: "Deleting outdated vms", because, changedByTaskId });
}

/**
 * Detaches the VM's disks and removes the VM from the records without deleting it. Also requires the locks of the
 * dynamic disks.
 */
export async function forgetVm(
  context: VmJobContext,
  run: TaskRun,
  instance: Instance,
  { isGone }: { readonly isGone: boolean },
): Promise<void> {
  await detachFromVm(context, run, instance, { mustUnmount: false });
  const remove = async () => (isGone ? undefined : "forgotten without being deleted");
  await removeVm(context, run, instance, { stage: "Forgetting vm", remove });
}

/** Detaches the VM's disks, deletes the VM, then the instance. Also requires the locks of the dynamic disks. */
export async function deleteInstance(
  context: VmJobContext,
  run: TaskRun,
  instance: Instance,
  { skipDrain = false }: DeletionOptions = {},
): Promise<void> {
  const { instanceId } = instance;
  // An interrupted create_vm is completed first, because deletion needs the VM's cid. A refused create_vm made no VM.
  if (instance.vmState === "creating") await tolerate(createVm(context, run, instance), (error) => error.refused);
  if (instance.vmState === "running") await stopJobs(context, run, instance, { intent: "delete_instance", skipDrain });
  const current = await context.tablet.read((tables) => tables.instances.get(instanceId));
  await detachForGood(context, run, instance);
  if (current && current.vmState !== "none")
    await deleteVm(context, run, current, { stage: "Deleting unneeded instances", because: "" });
  const orphaned = await context.tablet.transact((tx) => {
    if (tx.disks.count("byInstance", instanceId) > 0) {
      throw new InvalidStateError(`${formatInstance(instance)} still has dynamic disks: detach them first`);
    }
    const disk = persistentDiskOf(tx, instanceId);
    if (disk !== undefined) tx.persistentDisks.put(persistentDiskOrphaned(disk, context.clock.nowMs()));
    tx.instances.delete(instanceId);
    return disk;
  });
  if (orphaned !== undefined) noteOrphaned(context, run, orphaned);
}

async function deleteVm(
  context: VmJobContext,
  run: TaskRun,
  instance: Instance,
  how: Omit<VmRemoval, "remove">,
): Promise<void> {
  await removeVm(context, run, instance, {
    ...how,
    remove: async ({ vmCid: cid, cpi, az, stemcellApiVersion }) =>
      (await deleteObject(context, run, { kind: "vm", cid, cpi, az, stemcellApiVersion })).mayExist,
  });
}

interface VmRemoval extends Pick<DeletionOptions, "changedByTaskId"> {
  readonly stage: string;
  readonly because?: string;
  /** Resolves with the reason why the VM may still exist; undefined when it does not. */
  readonly remove: (leaving: Instance) => Promise<string | undefined>;
}

async function removeVm(
  context: VmJobContext,
  run: TaskRun,
  instance: Instance,
  { stage, because = "", remove, changedByTaskId = instance.changedByTaskId }: VmRemoval,
): Promise<void> {
  const { instanceId } = instance;
  const work = async (): Promise<void> => {
    // The recorded intent to delete keeps other tasks from attaching disks to the VM.
    const leaving = await changeInstance(context, instanceId, intendDeleteVm);
    const disks = await context.tablet.read((tables) => [...tables.disks.by("byInstance", instanceId)]);
    for (const disk of disks) await detachDisk(context, run, disk.name);
    const reason = await remove(leaving);
    await changeInstance(context, instanceId, (current, tx) => {
      const { vmToken: token, vmCid: cid, cpi, az, deployment } = current;
      const place = { cpi, az, deployment, madeFor: formatInstance(current) };
      if (reason !== undefined) putPossibleOrphan(context, run, tx, { token, kind: "vm", cid, ...place, reason });
      forgetBoshRegistrySettings(tx, current);
      forgetOwedRemovals(tx, current.agentId);
      return { ...vmDeleted(current), changedByTaskId };
    });
  };
  await run.stage(stage, formatInstance(instance), work, because);
}

/** Deletes the bosh-registry settings of a VM and its agent. */
export function forgetBoshRegistrySettings(tx: DirectorTransaction, { vmCid, agentId, vmToken }: Instance): void {
  tx.registrySettings.delete(vmCid);
  for (const agent of new Set([agentId, vmToken])) {
    for (const { id } of tx.registrySettings.by("byAgent", agent)) tx.registrySettings.delete(id);
  }
}
