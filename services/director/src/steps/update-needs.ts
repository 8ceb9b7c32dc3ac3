import { sameCpi } from "../model/cpi-choice.js";
import type { DeployNeeds } from "../model/deployment.js";
import type { Instance } from "../model/instance.js";
import { askedChange, type WantedState } from "../model/lifecycle.js";
import { type AddressOwners, addressOwners, holderOf, persistentDiskOf } from "../model/recorded-deployments.js";
import type { DirectorTables } from "../model/schema.js";
import { decideVmChange } from "../model/vm-change.js";
import type { JobContext } from "./job-context.js";
import { persistentDiskWorkOf } from "./persistent-disk-steps.js";
import { planVm, type VmPlan } from "./vm-spec.js";

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
export function needsOf(context: JobContext, tables: DirectorTables, aim: Aim): DeployNeeds {
  const { deployment, wanted, taskId, follows, fixesLost } = aim;
  const cpis = context.cpiConfigs.current(tables);
  const workOf = persistentDiskWorkOf(context, tables, deployment);
  let known: AddressOwners | undefined;
  const owners = (): AddressOwners => (known ??= addressOwners(tables));
  const planOf = (instance: Instance): VmPlan => planVm(context, tables, instance, owners());
  return {
    fixesLost,
    changeOf: (instance) => {
      const asked = askedChange(instance, wanted, taskId);
      if (asked.do !== "keep" || !follows) return asked;
      const disk = persistentDiskOf(tables, instance.instanceId);
      return decideVmChange(instance, planOf(instance), disk, (a, b) => sameCpi(a, b, cpis));
    },
    hasDiskWork: (instance) => workOf(instance).step !== "nothing",
    holderOf: (instance) => holderOf(owners(), instance, planOf(instance).ips),
  };
}
