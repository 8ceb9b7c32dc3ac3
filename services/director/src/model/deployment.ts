import type { Disk } from "./disk.js";
import { formatInstance, type Instance, type VmState } from "./instance.js";
import { compareLocks, type LockName } from "./locks.js";
import type { VmChange } from "./vm-change.js";

/** A named set of instances. */
export interface Deployment {
  readonly name: string;
  /** The last manifest deployed. */
  readonly manifest: string;
  /** Its deletion has begun: nothing may be added to it. */
  readonly deleting: boolean;
  /** The task that last looked whether its VMs are there and their agents answer; 0 for none since the last manifest. */
  readonly checkedByTaskId: number;
}

/** What a deploy, or the deletion of a deployment, does next. Each but `record` and `nothing` is about one thing. */
export type DeploymentStep =
  | { readonly do: "delete_instance" | "create_vm" | "await_agent" | "set_vm_metadata"; readonly instance: Instance }
  | { readonly do: "delete_vm"; readonly instance: Instance; readonly because: string }
  | { readonly do: "delete_disk"; readonly disk: Disk }
  | { readonly do: "persistent_disk"; readonly instance: Instance }
  | { readonly do: "nothing" };

/** What a deploy has to know of an instance whose VM is there. Asked for only when it matters. */
export interface DeployNeeds {
  readonly changeOf: (instance: Instance) => VmChange;
  readonly hasDiskWork: (instance: Instance) => boolean;
  /** Another one with a VM that still has an address which is to be this one's. */
  readonly holderOf: (instance: Instance) => Instance | undefined;
}

/**
 * Instances leave before new ones come: on a full fleet they make the room. A VM that must be made anew is deleted only
 * when all others are as they shall be, so that of many at most one is away, and none after the first that fails. One
 * whose address another one is to get goes before that: two that swap their addresses are away at the same time.
 */
export function decideDeploy(instances: readonly Instance[], needs: DeployNeeds): DeploymentStep {
  const { changeOf, hasDiskWork, holderOf } = needs;
  const inState = (...states: readonly VmState[]) => instances.find(({ vmState }) => states.includes(vmState));
  const leaving = instances.find((instance) => instance.leaving);
  if (leaving !== undefined) return { do: "delete_instance", instance: leaving };
  const halfDeleted = inState("deleting");
  if (halfDeleted !== undefined) return { do: "delete_vm", instance: halfDeleted, because: "its deletion had begun" };
  // What has begun is finished first: it may have an address that another one waits for.
  const begun = inState("creating");
  if (begun !== undefined) return { do: "create_vm", instance: begun };
  const unmade = inState("none");
  if (unmade !== undefined) {
    const holder = holderOf(unmade);
    if (holder === undefined) return { do: "create_vm", instance: unmade };
    return { do: "delete_vm", instance: holder, because: `an address of it is to be ${formatInstance(unmade)}'s` };
  }
  const silent = inState("created");
  // Whoever waits in vain for an agent's answer may have corrected what was wrong with its VM.
  if (silent !== undefined) return recreation(silent, changeOf(silent)) ?? { do: "await_agent", instance: silent };
  const running = instances.filter(({ vmState }) => vmState === "running");
  const busy = running.find((instance) => hasDiskWork(instance) && changeOf(instance).do !== "recreate");
  if (busy !== undefined) return { do: "persistent_disk", instance: busy };
  const lost = inState("lost");
  if (lost !== undefined)
    return { do: "delete_vm", instance: lost, because: "it is gone, or its agent does not answer" };
  for (const instance of running) {
    const change = changeOf(instance);
    if (change.do === "set_metadata") return { do: "set_vm_metadata", instance };
    const step = recreation(instance, change);
    if (step !== undefined) return step;
  }
  return { do: "nothing" };
}

function recreation(instance: Instance, change: VmChange): DeploymentStep | undefined {
  return change.do === "recreate" ? { do: "delete_vm", instance, because: change.because } : undefined;
}

/** Instances first, so that no disk is attached any more. */
export function decideDeleteDeployment(instances: readonly Instance[], disks: readonly Disk[]): DeploymentStep {
  const instance = instances[0];
  if (instance !== undefined) return { do: "delete_instance", instance };
  const disk = disks[0];
  return disk === undefined ? { do: "nothing" } : { do: "delete_disk", disk };
}

/** The locks of one step, within the deployment's own. */
export function locksOfStep(deployment: string, step: DeploymentStep, attached: readonly Disk[]): LockName[] {
  const locks: LockName[] = [{ type: "deployment", resource: deployment }];
  if (step.do === "delete_disk") locks.push({ type: "disk", resource: step.disk.name });
  else if (step.do !== "nothing") {
    locks.push({ type: "instance", resource: step.instance.instanceId });
    if (step.do === "delete_instance" || step.do === "delete_vm")
      locks.push(...attached.map((disk): LockName => ({ type: "disk", resource: disk.name })));
  }
  return locks.sort(compareLocks);
}
