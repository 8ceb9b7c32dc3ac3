import type { Disk } from "./disk.js";
import type { Instance } from "./instance.js";
import { compareLocks, type LockName } from "./locks.js";

/** A named set of instances. */
export interface Deployment {
  readonly name: string;
  /** The last manifest deployed. */
  readonly manifest: string;
  /** Its deletion has begun: nothing may be added to it. */
  readonly deleting: boolean;
}

/** What a deploy, or the deletion of a deployment, does next. Each but `record` and `nothing` is about one thing. */
export type DeploymentStep =
  | { readonly do: "delete_instance" | "create_vm" | "await_agent"; readonly instance: Instance }
  | { readonly do: "delete_disk"; readonly disk: Disk }
  | { readonly do: "persistent_disk"; readonly instance: Instance }
  | { readonly do: "nothing" };

/** Instances leave before new ones come: on a full fleet they make the room. */
export function decideDeploy(
  instances: readonly Instance[],
  hasDiskWork: (instance: Instance) => boolean = () => false,
): DeploymentStep {
  const leaving = instances.find((instance) => instance.leaving);
  if (leaving !== undefined) return { do: "delete_instance", instance: leaving };
  const unmade = instances.find((instance) => instance.vmState === "none" || instance.vmState === "creating");
  if (unmade !== undefined) return { do: "create_vm", instance: unmade };
  const silent = instances.find((instance) => instance.vmState === "created");
  if (silent !== undefined) return { do: "await_agent", instance: silent };
  const busy = instances.find((instance) => instance.vmState === "running" && hasDiskWork(instance));
  if (busy !== undefined) return { do: "persistent_disk", instance: busy };
  return { do: "nothing" };
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
    if (step.do === "delete_instance")
      locks.push(...attached.map((disk): LockName => ({ type: "disk", resource: disk.name })));
  }
  return locks.sort(compareLocks);
}
