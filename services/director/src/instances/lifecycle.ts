import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { formatInstance, type Instance } from "../store/instance.js";
import type { Selection, WantedState } from "../store/task.js";
import { CODES, coded } from "../tasks/bosh-codes.js";
import type { VmChange } from "./vm-change.js";

const INDEX = /^[0-9]{1,9}$/;

/** Returns the selected instances that the manifest has a place for. Throws NotFoundError when there is none. */
export function selectInstances(all: readonly Instance[], { group, instance }: Selection): Instance[] {
  const isMeant = INDEX.test(instance)
    ? ({ index }: Instance) => index === Number(instance)
    : ({ instanceId }: Instance) => instance === "" || instanceId === instance;
  const ofGroup = all.filter((each) => !each.leaving && (group === "" || each.group === group));
  const selected = ofGroup.filter(isMeant);
  if (selected.length > 0 || (group === "" && instance === "")) return selected;
  const what = instance === "" ? `instance group \`${group}\`` : `instance \`${group}/${instance}\``;
  const error = new NotFoundError(`the deployment has no ${what}`, { about: { group } });
  throw instance === "" ? error : coded(CODES.instanceNotFound, error);
}

/**
 * Returns the selected instances that may be changed, without ignored instances. Throws when a single ignored instance
 * is selected.
 */
export function changeable(selected: readonly Instance[], { instance }: Selection): Instance[] {
  const [ignored] = selected.filter(({ ignore }) => ignore);
  if (instance !== "" && ignored !== undefined)
    throw new InvalidStateError(`${formatInstance(ignored)} is ignored: unignore it before you change its state`, {
      reason: "INSTANCE_IGNORED",
      about: { instance_id: ignored.instanceId },
    });
  return selected.filter(({ ignore }) => !ignore);
}

/** Returns the instance with the requested state recorded. */
export function want(instance: Instance, wanted: WantedState, taskId: number): Instance {
  const state = wanted === "restart" || wanted === "recreate" ? "started" : wanted;
  return passDone({ ...instance, state }, wanted, taskId);
}

/** Marks the request as done by the task when nothing is left to do. */
export function passDone(instance: Instance, wanted: WantedState, taskId: number): Instance {
  const hasNoVm = instance.vmState === "none" || instance.vmState === "creating";
  const isDone = wanted === "recreate" ? hasNoVm : wanted === "restart" && (hasNoVm || instance.jobs === "stopped");
  return isDone ? { ...instance, changedByTaskId: taskId } : instance;
}

/** Returns the requested change that the task still has to make to the VM. */
export function askedChange(instance: Instance, wanted: WantedState, taskId: number): VmChange {
  const isDone = instance.changedByTaskId === taskId;
  if (wanted === "recreate" && !isDone) return { do: "recreate", because: "it was asked for" };
  if (wanted === "restart" && !isDone) return { do: "restart" };
  return { do: "keep" };
}
