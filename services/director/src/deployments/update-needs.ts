import { groupOf, manifestOf } from "../configs/recorded-manifest.js";
import { persistentDiskWorkOf } from "../disks/persistent/persistent-disk-steps.js";
import { askedChange } from "../instances/lifecycle.js";
import { holderOf, otherDiskOf, persistentDiskOf } from "../instances/recorded-deployments.js";
import { decideVmChange } from "../instances/vm-change.js";
import { sameCpi } from "../specs/cpi-choice.js";
import type { Instance } from "../store/instance.js";
import type { DirectorTables } from "../store/schema.js";
import type { WantedState } from "../store/task.js";
import { planVm } from "../vms/vm-spec.js";
import type { DeploymentJobContext } from "./context.js";
import type { DeployNeeds } from "./deployment.js";

/** The goal of a task for its instances. */
export interface Aim {
  readonly deployment: string;
  readonly taskId: number;
  /** The requested state; "started" by default. */
  readonly wanted: WantedState;
  /** True when the task also changes VMs that differ from the manifest and the configs. */
  readonly follows: boolean;
  readonly fixesLost: boolean;
}

/** Returns the recorded facts that decide the next step. */
export function needsOf(context: DeploymentJobContext, tables: DirectorTables, aim: Aim): DeployNeeds {
  const { deployment, wanted, taskId, follows, fixesLost } = aim;
  const cpis = context.configs.cpi.current(tables);
  const workOf = persistentDiskWorkOf(context, tables, deployment);
  const manifest = manifestOf(context, tables, deployment);
  return {
    fixesLost,
    changeOf: (instance) => {
      const asked = askedChange(instance, wanted, taskId);
      if (asked.do !== "keep" || !follows) return asked;
      const disk = persistentDiskOf(tables, instance.instanceId);
      return decideVmChange(instance, planVm(context, tables, instance), disk, (a, b) => sameCpi(a, b, cpis));
    },
    hasDiskWork: (instance) => {
      if (wanted === "stopped" && !follows && isSettled(tables, instance)) return false;
      return workOf(instance).step !== "nothing";
    },
    holderOf: (instance) => holderOf(tables, groupOf(manifest, instance), instance),
  };
}

/**
 * Returns true when the instance's disk is mounted and no copy is under way. A task that only stops jobs then needs no
 * disk work, and an invalid cloud config must not fail it.
 */
function isSettled(tables: DirectorTables, { instanceId }: Instance): boolean {
  return persistentDiskOf(tables, instanceId)?.state === "mounted" && otherDiskOf(tables, instanceId) === undefined;
}
