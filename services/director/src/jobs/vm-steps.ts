import { InvalidStateError } from "@diskmesh/domain";
import { CpiCallError } from "../cpi/cpi-error.js";
import { checkCid } from "../model/cid.js";
import { type Az, azNamed } from "../model/cloud-config.js";
import { cpiOfAz, cpiToRecord } from "../model/cpi-choice.js";
import {
  agentAnswered,
  formatInstance,
  type Instance,
  intendCreateVm,
  intendDeleteVm,
  vmCreated,
  vmDeleted,
  vmNotCreated,
} from "../model/instance.js";
import type { TaskRun } from "../workers/task-run.js";
import { awaitAgent } from "./agent-steps.js";
import { recorded } from "./cpi-target.js";
import { detachDisk } from "./disk-steps.js";
import type { JobContext } from "./job.js";

/** Steps on one instance's VM, in the manner of those on disks. All need the instance's lock. */

async function change(
  context: JobContext,
  instanceId: string,
  next: (instance: Instance) => Instance,
): Promise<Instance> {
  return context.tablet.transact((tx) => {
    const instance = tx.instances.get(instanceId);
    // The lock is held: nobody else can have deleted it.
    if (instance === undefined) throw new TypeError("an instance vanished while it was locked");
    const changed = next(instance);
    tx.instances.put(changed);
    return changed;
  });
}

export async function createVm(context: JobContext, run: TaskRun, instance: Instance): Promise<void> {
  const { instanceId } = instance;
  await run.stage("Creating missing vms", formatInstance(instance), async () => {
    const { az, cpi } = await azOf(context, instance);
    const intended = await change(context, instanceId, (current) => intendCreateVm(current, context.newId(), cpi));
    try {
      const vm = await context.cpi.call(
        "createVm",
        { cpi: intended.cpi, az: az.name, azCpi: intended.cpi },
        {
          agentId: intended.vmToken,
          stemcellCid: "",
          cloudProperties: az.cloudProperties,
          networks: {},
          diskCids: [],
          env: {},
          az: az.name,
        },
        run,
      );
      checkCid("vm", vm.vmCid);
      await change(context, instanceId, (current) =>
        vmCreated(current, { ...vm, cpi: cpiToRecord(intended.cpi, vm.cpi) }),
      );
    } catch (error) {
      // A CPI that knows tokens would have found a VM that an earlier call had made.
      if (error instanceof CpiCallError && error.refused) await change(context, instanceId, vmNotCreated);
      throw error;
    }
  });
}

async function azOf(context: JobContext, instance: Instance): Promise<{ readonly az: Az; readonly cpi: string }> {
  const { config, cpis } = await context.tablet.read((tables) => ({
    config: context.cloudConfigs.current(tables),
    cpis: context.cpiConfigs.current(tables),
  }));
  const known = config.azs.find((az) => az.name === instance.az);
  // A VM that may exist already must be found, so that it can be deleted, even if its az has left the cloud config.
  const gone = { name: instance.az, cloudProperties: {}, cpi: instance.cpi };
  if (instance.vmState === "creating") return { az: known ?? gone, cpi: instance.cpi };
  const az = known ?? azNamed(config, instance.az);
  return { az, cpi: cpiOfAz(az, cpis) };
}

export async function awaitVm(context: JobContext, run: TaskRun, instance: Instance): Promise<void> {
  await run.stage("Waiting for agents", formatInstance(instance), async () => {
    await awaitAgent(context, run, instance.agentId);
    await change(context, instance.instanceId, agentAnswered);
  });
}

/** Detaches the VM's dynamic disks, deletes the VM, then the instance. Needs the locks of the disks, too. */
export async function deleteInstance(context: JobContext, run: TaskRun, instance: Instance): Promise<void> {
  const { instanceId } = instance;
  if (instance.vmState === "creating") await finishCreation(context, run, instance);
  const current = await context.tablet.read((tables) => tables.instances.get(instanceId));
  if (current && current.vmState !== "none") await deleteVm(context, run, current);
  await context.tablet.transact((tx) => {
    if (tx.disks.count("byInstance", instanceId) > 0) {
      throw new InvalidStateError(`${formatInstance(instance)} still has dynamic disks: detach them first`);
    }
    tx.instances.delete(instanceId);
  });
}

/** Without the VM's id it could not be deleted. */
async function finishCreation(context: JobContext, run: TaskRun, instance: Instance): Promise<void> {
  try {
    await createVm(context, run, instance);
  } catch (error) {
    if (!(error instanceof CpiCallError && error.refused)) throw error;
  }
}

async function deleteVm(context: JobContext, run: TaskRun, instance: Instance): Promise<void> {
  const { instanceId } = instance;
  await run.stage("Deleting unneeded instances", formatInstance(instance), async () => {
    // From now on nobody attaches a disk to it.
    const leaving = await change(context, instanceId, intendDeleteVm);
    const disks = await context.tablet.read((tables) => [...tables.disks.by("byInstance", instanceId)]);
    for (const disk of disks) await detachDisk(context, run, disk.name);
    try {
      await context.cpi.call("deleteVm", recorded(leaving), { vmCid: leaving.vmCid }, run);
    } catch (error) {
      if (!(error instanceof CpiCallError && error.isOf("VmNotFoundError"))) throw error;
    }
    await change(context, instanceId, vmDeleted);
  });
}
