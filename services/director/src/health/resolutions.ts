import { InvalidStateError } from "@diskmesh/domain";
import { groupOf, manifestOf } from "../configs/recorded-manifest.js";
import { tolerate } from "../cpi/cpi-error.js";
import { allCpis, recorded } from "../cpi/cpi-target.js";
import { putPossibleOrphan } from "../cpi/make-once.js";
import { runHeld } from "../deployments/run-unit.js";
import { NOT_ATTACHED, requestRelease } from "../disks/disk-steps.js";
import { detachDisk } from "../disks/dynamic/detach.js";
import { attachDisk, notifyAgentOfDisk } from "../disks/dynamic/provide.js";
import { forgetForGood } from "../disks/forget.js";
import { isHostLost } from "../disks/lost-host.js";
import { persistentDiskOrphaned } from "../disks/persistent/persistent-disk.js";
import { detachFromVm, noteOrphaned, persistentDisk, unmount } from "../disks/persistent/persistent-disk-steps.js";
import { agentAnswered, instanceNamed, targetOf } from "../instances/instance.js";
import { changeInstance } from "../instances/instance-record.js";
import type { Disk } from "../store/disk.js";
import type { Instance } from "../store/instance.js";
import type { PersistentDisk } from "../store/persistent-disk.js";
import type { Finding, Problem, Resolution } from "../store/problem.js";
import type { DirectorTables } from "../store/schema.js";
import type { TaskRun } from "../tasks/task-run.js";
import { stopJobs } from "../vms/job-steps.js";
import { deleteOutdatedVm, forgetVm } from "../vms/vm-steps.js";
import type { HealthJobContext } from "./context.js";

/**
 * Resolves a problem. Needs the locks of the problem's instance, of the instances whose VMs have its disk, and of the
 * dynamic disks of these instances. An act can be repeated after a crash of the director.
 */
type Act = (context: HealthJobContext, run: TaskRun, problem: Problem) => Promise<void>;

export const RESOLUTIONS: Readonly<Record<Resolution, Act>> = {
  ignore: async () => {},
  recreate_vm: recreateVm,
  reboot_vm: rebootVm,
  delete_vm: async (context, run, problem) => {
    if (problem.type === "unknown_vm") return deleteUnknownVm(context, run, problem);
    const instance = await instanceOf(context, problem);
    if (instance.vmState !== "none") await deleteOutdatedVm(context, run, instance, problem.description);
  },
  delete_vm_reference: async (context, run, problem) => {
    const instance = await instanceOf(context, problem);
    if (instance.vmState === "none") return;
    if (instance.vmState === "creating")
      throw new InvalidStateError("create_vm was interrupted and a VM may exist: choose recreate, or deploy again");
    // Only the VM's own CPI was asked whether the VM exists.
    const isOnlyCpi = await context.tablet.read((tables) => allCpis(context, tables).length === 1);
    await forgetVm(context, run, instance, { isGone: problem.type === "missing_vm" && isOnlyCpi });
  },
  delete_disk_reference: forgetDisk,
  reattach_disk: reattachDisk,
  detach_disk: takeFromElsewhere,
  add_link: async (context, run, problem) => {
    const { agentId } = await instanceOf(context, problem);
    await notifyAgentOfDisk(context, run, await dynamicDiskOf(context, problem), agentId);
  },
  remove_link: async (context, run, { diskCid, ...problem }) => {
    const { agentId } = await instanceOf(context, problem);
    await forgetForGood(context, run, agentId, [diskCid], context.limits.agents.detachTimeoutMs);
  },
};

async function recreateVm(context: HealthJobContext, run: TaskRun, problem: Problem): Promise<void> {
  const { cpi } = await instanceOf(context, problem);
  await context.vmSlots(cpi).run(() => bringUp(context, run, problem), run.stopped);
}

/** Runs the steps that bring the instance into the wanted state. */
async function bringUp(context: HealthJobContext, run: TaskRun, { deployment, instanceId }: Problem): Promise<void> {
  const { manifest = "" } = (await context.tablet.read((tables) => tables.deployments.get(deployment))) ?? {};
  using _held = await context.configs.manifests.hold(manifest, run.stopped);
  const group = await context.tablet.read((tables) =>
    groupOf(manifestOf(context, tables, deployment), instanceNamed(instanceId, tables.instances.get(instanceId))),
  );
  const aim = { deployment, taskId: run.taskId, wanted: "started", follows: false, fixesLost: true } as const;
  const watchTime = group.update.updateWatchTime;
  await runHeld(context, run, instanceId, { aim, skipDrain: false, watchTime });
}

async function deleteUnknownVm(context: HealthJobContext, run: TaskRun, { vmCid, cpi }: Problem): Promise<void> {
  await run.stage("Deleting unknown vm", vmCid, async () => {
    const call = context.cpi.call("deleteVm", { cpi }, { vmCid }, run);
    await tolerate(call, (error) => error.isOf("VM_NOT_FOUND"));
  });
}

async function rebootVm(context: HealthJobContext, run: TaskRun, problem: Problem): Promise<void> {
  const { vmCid } = problem;
  const instance = await instanceOf(context, problem);
  await run.stage("Rebooting vm", vmCid, async () => {
    await context.cpi.call("rebootVm", recorded(instance), { vmCid }, run);
    await context.agents.awaitAnswer(run, instance.agentId, context.config.agents.readyTimeoutMs);
    await changeInstance(context, instance.instanceId, (current) =>
      current.vmState === "running" ? current : agentAnswered(current),
    );
  });
}

/**
 * Removes the record of a missing disk. A dynamic disk becomes a possible orphan. A persistent disk becomes an orphan,
 * and the next deploy creates a new disk.
 */
async function forgetDisk(context: HealthJobContext, run: TaskRun, problem: Problem): Promise<void> {
  const { dynamic, persistent } = await disksOf(context, problem);
  if (dynamic !== undefined) {
    const { name, token, cpi, az, deployment, diskCid: cid, instanceId } = dynamic;
    if (instanceId !== "") await detachDisk(context, run, name);
    const reason = "forgotten, since its CPI did not know it";
    await context.tablet.transact((tx) => {
      tx.disks.delete(name);
      const madeFor = `dynamic disk ${name}`;
      putPossibleOrphan(context, run, tx, { token, kind: "disk", cid, cpi, az, deployment, madeFor, reason });
    });
  } else if (persistent !== undefined && persistent.orphanedAtMs === null) {
    await detachFromVm(context, run, await instanceOf(context, problem), { mustUnmount: false });
    const nowMs = context.clock.nowMs();
    await persistentDisk(context, run, persistent.diskId).change((current) => persistentDiskOrphaned(current, nowMs));
    noteOrphaned(context, run, persistent);
  }
}

async function reattachDisk(context: HealthJobContext, run: TaskRun, problem: Problem): Promise<void> {
  const { instanceId } = problem;
  await takeFromElsewhere(context, run, problem);
  const { dynamic, persistent } = await disksOf(context, problem);
  if (dynamic !== undefined) {
    if (dynamic.state !== "detached") await detachDisk(context, run, dynamic.name);
    const target = await context.tablet.read((tables) => targetOf(instanceId, tables.instances.get(instanceId)));
    await attachDisk(context, run, dynamic, { ...target, readOnly: dynamic.readOnly ?? false });
    const attached = await dynamicDiskOf(context, problem);
    if (attached.hint !== null) await notifyAgentOfDisk(context, run, attached, target.agentId);
  } else if (persistent !== undefined) {
    const instance = await instanceOf(context, problem);
    // The jobs are stopped, because they may be using the mounted disk. `bringUp` starts them again.
    if (instance.vmState === "running") await stopJobs(context, run, instance, { intent: "restart", skipDrain: false });
    await detachFromVm(context, run, instance, { mustUnmount: true });
    await bringUp(context, run, problem);
  }
}

/**
 * Detaches the disk from VMs that should not have it. The detach fails when an agent reports that it cannot release the
 * disk.
 */
async function takeFromElsewhere(context: HealthJobContext, run: TaskRun, problem: Problem): Promise<void> {
  const { deployment, diskCid, elsewhere } = problem;
  const holders = await context.tablet.read((tables) => holdersOf(tables, problem));
  const missing = elsewhere.filter((vmCid) => !holders.some((holder) => holder.vmCid === vmCid));
  if (missing.length > 0)
    throw new InvalidStateError(`deployment \`${deployment}\` has no vm \`${missing[0]}\` any more: scan it again`);
  for (const holder of holders) {
    const { agentId, vmCid } = holder;
    await run.stage("Detaching disk", `${diskCid} from ${vmCid}`, async () => {
      if (!(await isHostLost(context, run, agentId, { vmCid, diskCid }))) {
        const request =
          problem.disk?.kind === "dynamic"
            ? forgetForGood(context, run, agentId, [diskCid], context.limits.agents.detachTimeoutMs)
            : unmount(context, run, agentId, diskCid);
        const event = { stage: "Telling agent", task: `${agentId} to forget ${diskCid}` };
        await requestRelease(run, event, request, { mustLetGo: true });
      }
      const call = context.cpi.call("detachDisk", recorded(holder), { vmCid, diskCid }, run);
      await tolerate(call, (error) => error.isOf(...NOT_ATTACHED));
    });
  }
}

/** Returns the instances of the deployment whose VMs wrongly have the problem's disk. */
export function holdersOf(tables: DirectorTables, { deployment, elsewhere }: Finding): Instance[] {
  return [...tables.instances.by("byDeployment", deployment)].filter(({ vmCid }) => elsewhere.includes(vmCid));
}

function instanceOf(context: HealthJobContext, { instanceId }: Pick<Finding, "instanceId">): Promise<Instance> {
  return context.tablet.read((tables) => instanceNamed(instanceId, tables.instances.get(instanceId)));
}

function disksOf(
  context: HealthJobContext,
  { disk }: Pick<Finding, "disk">,
): Promise<{ readonly dynamic: Disk | undefined; readonly persistent: PersistentDisk | undefined }> {
  return context.tablet.read((tables) => ({
    dynamic: disk?.kind === "dynamic" ? tables.disks.get(disk.key) : undefined,
    persistent: disk?.kind === "persistent" ? tables.persistentDisks.get(disk.key) : undefined,
  }));
}

async function dynamicDiskOf(context: HealthJobContext, problem: Pick<Finding, "disk" | "diskCid">): Promise<Disk> {
  const { dynamic } = await disksOf(context, problem);
  if (dynamic !== undefined) return dynamic;
  throw new InvalidStateError(`disk \`${problem.diskCid}\` is not recorded any more: scan the deployment again`);
}
