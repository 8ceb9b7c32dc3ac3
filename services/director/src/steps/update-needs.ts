import { sameCpi } from "../model/cpi-choice.js";
import type { DeployNeeds } from "../model/deployment.js";
import type { Instance } from "../model/instance.js";
import { askedChange, type WantedState } from "../model/lifecycle.js";
import { holderOf, otherDiskOf, persistentDiskOf } from "../model/recorded-deployments.js";
import type { DirectorTables } from "../model/schema.js";
import { decideVmChange } from "../model/vm-change.js";
import { groupOf, manifestOf } from "../yaml/recorded-manifest.js";
import type { DeploymentJobContext } from "./job-context.js";
import { persistentDiskWorkOf } from "./persistent-disk-steps.js";
import { planVm } from "./vm-spec.js";

/** What a task is to make of instances. */
export interface Aim {
  readonly deployment: string;
  readonly taskId: number;
  /** What was asked for by name; started for nothing in particular. */
  readonly wanted: WantedState;
  /** Whether VMs follow the manifest and the configs. */
  readonly follows: boolean;
  readonly fixesLost: boolean;
}

/** What is recorded, as far as it decides what comes next. */
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

/** Whoever stops jobs asks for nothing else of a disk that is mounted: what the cloud config says of it now is no reason to refuse. */
function isSettled(tables: DirectorTables, { instanceId }: Instance): boolean {
  return persistentDiskOf(tables, instanceId)?.state === "mounted" && otherDiskOf(tables, instanceId) === undefined;
}
