import { InvalidStateError } from "@diskmesh/domain";
import type { VmChange } from "../instances/vm-change.js";
import { compareLocks, type LockName } from "../locks/locks.js";
import type { Disk } from "../store/disk.js";
import { formatInstance, type Instance, type VmState } from "../store/instance.js";

/** The next step of a deploy. Each step except `nothing` concerns one instance. */
export type DeploymentStep =
  | { readonly do: "delete_instance" | "create_vm" | "await_agent" | "set_vm_metadata"; readonly instance: Instance }
  | { readonly do: "delete_vm"; readonly instance: Instance; readonly because: string }
  | { readonly do: "persistent_disk" | "start" | "stop" | "restart"; readonly instance: Instance }
  | { readonly do: "nothing" };

export type InstanceStep = Exclude<DeploymentStep, { readonly do: "nothing" }>;

/** Facts about an instance, computed on demand. */
export interface DeployNeeds {
  readonly changeOf: (instance: Instance) => VmChange;
  readonly hasDiskWork: (instance: Instance) => boolean;
  /** Returns another instance whose VM still has an address that this instance needs. */
  readonly holderOf: (instance: Instance) => Instance | undefined;
  /** True when a VM whose agent does not answer is recreated. */
  readonly fixesLost: boolean;
}

/**
 * Returns the next step towards the wanted instances. Skips ignored instances. Leaving instances come first, because
 * they free space on a full fleet. The holder of an address is deleted before the instance that needs the address, so
 * two instances that swap addresses are down at the same time. A VM is recreated only after the other instances are as
 * wanted.
 */
export function decideDeploy(all: readonly Instance[], needs: DeployNeeds): DeploymentStep {
  const { changeOf, hasDiskWork } = needs;
  const instances = all.filter(({ ignore }) => !ignore);
  const inState = (...states: readonly VmState[]) => instances.find(({ vmState }) => states.includes(vmState));
  const leaving = instances.find((instance) => instance.leaving);
  if (leaving !== undefined) return { do: "delete_instance", instance: leaving };
  const halfDeleted = inState("deleting");
  if (halfDeleted !== undefined)
    return { do: "delete_vm", instance: halfDeleted, because: "its deletion was interrupted" };
  // A partly created instance is finished first, because another instance may wait for its address.
  const begun = inState("creating");
  if (begun !== undefined) return { do: "create_vm", instance: begun };
  const detached = instances.find(({ state, vmState }) => state === "detached" && vmState !== "none");
  if (detached !== undefined)
    return { do: "delete_vm", instance: detached, because: "its VM is to be deleted (detached)" };
  const unmade = instances.find(({ state, vmState }) => state !== "detached" && vmState === "none");
  if (unmade !== undefined) return creation(unmade, needs);
  const silent = inState("created");
  // The VM is first checked for a change, because an operator may have corrected the manifest of a VM whose agent does
  // not answer.
  if (silent !== undefined) return recreation(silent, changeOf(silent)) ?? { do: "await_agent", instance: silent };
  const running = instances.filter(({ vmState }) => vmState === "running");
  const busy = running.find((instance) => hasDiskWork(instance) && changeOf(instance).do !== "recreate");
  if (busy !== undefined) return { do: "persistent_disk", instance: busy };
  const lost = inState("lost");
  if (lost !== undefined) return replacement(lost, needs);
  for (const instance of running) {
    const change = changeOf(instance);
    if (change.do === "set_metadata") return { do: "set_vm_metadata", instance };
    if (change.do === "restart") return { do: "restart", instance };
    const step = recreation(instance, change) ?? ofJobs(instance);
    if (step !== undefined) return step;
  }
  return { do: "nothing" };
}

function creation(unmade: Instance, { holderOf }: DeployNeeds): DeploymentStep {
  const holder = holderOf(unmade);
  if (holder === undefined) return { do: "create_vm", instance: unmade };
  const name = formatInstance(unmade);
  if (holder.ignore)
    throw new InvalidStateError(
      `the manifest gives an address of ${formatInstance(holder)}, which is ignored, to ${name}: unignore ${formatInstance(holder)} first`,
      { reason: "INSTANCE_IGNORED", about: { instance_id: holder.instanceId } },
    );
  return { do: "delete_vm", instance: holder, because: `the manifest gives its address to ${name}` };
}

function recreation(instance: Instance, change: VmChange): DeploymentStep | undefined {
  return change.do === "recreate" ? { do: "delete_vm", instance, because: change.because } : undefined;
}

function replacement(lost: Instance, { changeOf, fixesLost }: DeployNeeds): DeploymentStep {
  const because = "its VM is gone, or its agent does not answer";
  if (fixesLost || changeOf(lost).do === "recreate") return { do: "delete_vm", instance: lost, because };
  throw new InvalidStateError(
    `the vm of ${formatInstance(lost)} is gone, or its agent does not answer: repeat the request with fix to recreate the VM`,
    { about: { instance_id: lost.instanceId } },
  );
}

function ofJobs(instance: Instance): DeploymentStep | undefined {
  const { state = "started", jobs = "started" } = instance;
  if (state === "started" && jobs !== "started") return { do: "start", instance };
  if (state === "stopped" && jobs !== "stopped") return { do: "stop", instance };
  return undefined;
}

/**
 * Returns true when a VM is needed and no running jobs can be harmed: the VM is absent, or its jobs have never run. All
 * such VMs are created concurrently.
 */
export function isMissing({ vmState, state, jobs }: Instance): boolean {
  if (vmState === "deleting" || vmState === "creating") return true;
  if (state === "detached") return false;
  if (vmState === "none" || vmState === "created") return true;
  return vmState === "lost" && jobs === "stopped" && state !== "stopped";
}

/** Returns true for a faulty instance. Faulty instances are updated before healthy instances. */
export function isBroken({ vmState, state = "started", jobs = "started" }: Instance): boolean {
  return vmState !== "running" ? state !== "detached" : state === "started" && jobs !== "started";
}

/** Returns the locks of a step, in addition to the deployment's lock. */
export function locksOfStep(step: InstanceStep, attached: readonly Disk[]): LockName[] {
  const locks: LockName[] = [{ type: "instance", resource: step.instance.instanceId }];
  if (step.do === "delete_instance" || step.do === "delete_vm")
    locks.push(...attached.map((disk): LockName => ({ type: "disk", resource: disk.name })));
  return locks.sort(compareLocks);
}
