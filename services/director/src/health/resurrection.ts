import { isShutOut } from "../agents/agent-key.js";
import { persistentDiskOf } from "../instances/recorded-deployments.js";
import { type ResurrectionWishes, rulesAllow } from "../specs/resurrection-rule.js";
import type { Disk } from "../store/disk.js";
import type { Instance } from "../store/instance.js";
import type { PersistentDisk } from "../store/persistent-disk.js";
import { type DirectorTables, taskKey } from "../store/schema.js";
import { hasEnded } from "../store/task.js";
import { isSwitchedOn } from "./resurrection-switch.js";

export interface ResurrectionLimits {
  /** Silence after which the CPI is asked whether the VM exists. */
  readonly silentAfterMs: number;
  /** Silence after which the VM counts as dead, even if its CPI reports the VM. */
  readonly deadAfterMs: number;
}

/** A VM whose agent must send heartbeats. */
export interface WatchedVm {
  readonly instance: Instance;
  /** Time without a heartbeat, in ms. */
  readonly silentMs: number;
  readonly isOn: boolean;
  /** True when NATS accepts none of the agent's certificates. The silence then proves nothing about the VM. */
  readonly isShutOut: boolean;
  /** True when the outcome of an attach or detach of one of its disks is unknown. */
  readonly hasUnknownAttach: boolean;
}

/** The decision about a VM with a silent agent. */
export type ResurrectionVerdict =
  | { readonly instance: Instance; readonly do: "make_anew"; readonly isDead: boolean }
  | { readonly instance: Instance; readonly do: "hold"; readonly because: string };

/**
 * Minimum group size of the mass-outage guard. Silence in a smaller group does not show whether the VMs failed, or a
 * network, rack or director that they share.
 */
const CROWD = 5;

class Crowd {
  #size = 0;
  #faltering = 0;

  add(falters: boolean): void {
    this.#size += 1;
    if (falters) this.#faltering += 1;
  }

  get isSilent(): boolean {
    return this.#size >= CROWD && this.#faltering > this.#size / 2;
  }
}

/** Returns true when the instance has a VM whose agent must send heartbeats. */
export function isWatched({ vmState, leaving, state }: Instance): boolean {
  return (vmState === "running" || vmState === "lost") && !leaving && state !== "detached";
}

/** Returns true while an unended task of the resurrector recreates the VM. */
export function isBeingMadeAnew(tables: DirectorTables, { vmState, changedByTaskId = 0 }: Instance): boolean {
  const task = tables.tasks.get(taskKey(changedByTaskId));
  return vmState === "lost" && task?.job?.type === "resurrect_instances" && !hasEnded(task);
}

/** Returns true when the outcome of the last attach or detach of the disk is unknown. */
export function isUnknownAttach({ state }: Pick<Disk | PersistentDisk, "state">): boolean {
  return state === "attaching" || state === "detaching";
}

/**
 * Returns the decision for each silent VM. Heartbeats are spread over half a minute, so agents that fail together are
 * missed at different times. The mass-outage guard therefore counts an agent as silent after half of the limit.
 */
export function decideResurrections(
  watched: readonly WatchedVm[],
  { silentAfterMs, deadAfterMs }: ResurrectionLimits,
): ResurrectionVerdict[] {
  const all = new Crowd();
  const byDeployment = new Map<string, Crowd>();
  for (const { instance, silentMs } of watched) {
    const ofDeployment = byDeployment.get(instance.deployment) ?? new Crowd();
    byDeployment.set(instance.deployment, ofDeployment);
    for (const crowd of [all, ofDeployment]) crowd.add(silentMs > silentAfterMs / 2);
  }
  return watched
    .filter(({ silentMs, isOn }) => silentMs >= silentAfterMs && isOn)
    .map(({ instance, silentMs, isShutOut: cannotSpeak, hasUnknownAttach }): ResurrectionVerdict => {
      const hold = (because: string): ResurrectionVerdict => ({ instance, do: "hold", because });
      if (instance.ignore) return hold("it is ignored");
      if (all.isSilent)
        return hold("more than half of all agents are silent: check what they share, such as the network");
      if (byDeployment.get(instance.deployment)?.isSilent)
        return hold("more than half of its deployment's agents are silent: check what they share, such as the network");
      if (hasUnknownAttach) return hold("it is not known whether a disk is attached to it: detach the disk, or scan");
      return { instance, do: "make_anew", isDead: silentMs >= deadAfterMs && !cannotSpeak };
    });
}

/** Returns the recorded facts about VMs whose agents must send heartbeats. */
export function watchedVms(
  tables: DirectorTables,
  silentMsOf: (agentId: string) => number,
  { isOnByDefault, rules }: ResurrectionWishes,
  nowMs: number,
): WatchedVm[] {
  const isOnOf = (scope: string) => tables.resurrectionSwitches.get(scope)?.isOn;
  // Cached per group, because there may be a thousand rules and thousands of VMs in few groups.
  const allowed = new Map<string, boolean>();
  const isAllowed = ({ deployment, group }: Instance): boolean => {
    const key = JSON.stringify([deployment, group]);
    const known = allowed.get(key) ?? rulesAllow(rules, { deployment, group });
    allowed.set(key, known);
    return known;
  };
  return [...tables.instances.entries()].filter(isWatched).map((instance) => {
    const persistent = persistentDiskOf(tables, instance.instanceId);
    const disks = [...tables.disks.by("byInstance", instance.instanceId), ...(persistent ? [persistent] : [])];
    const isOpen = tables.deployments.get(instance.deployment)?.deleting === false;
    return {
      instance,
      silentMs: silentMsOf(instance.agentId),
      isOn: isOpen && isSwitchedOn(isOnOf, instance, isOnByDefault) && isAllowed(instance),
      isShutOut: isShutOut(instance.agentKeys, nowMs),
      // The task that recreates the VM detaches its disks and knows the outcome.
      hasUnknownAttach: disks.some(isUnknownAttach) && !isBeingMadeAnew(tables, instance),
    };
  });
}
