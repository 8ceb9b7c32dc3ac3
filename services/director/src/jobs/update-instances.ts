import type { Instance } from "../model/instance.js";
import { changeable, selectInstances, want } from "../model/lifecycle.js";
import type { LockName } from "../model/locks.js";
import { instancesOf, refuseUnlessOpen } from "../model/recorded-deployments.js";
import type { DirectorTransaction } from "../model/schema.js";
import { checkVms } from "../steps/check-vms.js";
import { cpisOfStep } from "../steps/cpi-target.js";
import { cpisOfDeployment } from "../steps/deployment-steps.js";
import type { DeploymentJobContext } from "../steps/job-context.js";
import { rehearse } from "../steps/rehearse.js";
import { updateInstances } from "../steps/update-instances.js";
import type { TaskRun } from "../workers/task-run.js";
import type { Planner } from "./job.js";

/** Brings instances into the state that was asked for, by the manifest that was deployed last. */
export const updateInstanceStates: Planner<"update_instances", DeploymentJobContext> = (
  context,
  job,
  tables,
  taskId,
) => {
  const { deployment: name, selection, wanted, fix, ...how } = job;
  refuseUnlessOpen(tables, name);
  const { manifest, checkedByTaskId } = tables.deployments.get(name) ?? { manifest: "", checkedByTaskId: 0 };
  const locks: LockName[] = [{ type: "deployment", resource: name }];
  const ofCpis = cpisOfStep(context, tables, ...cpisOfDeployment(context, tables, name));
  const meant = (all: readonly Instance[]) => changeable(selectInstances(all, selection), selection);
  const aim = { deployment: name, taskId, wanted, follows: false, fixesLost: fix };
  const asked = (tx: DirectorTransaction): void => {
    for (const instance of meant(instancesOf(tx, name))) tx.instances.put(want(instance, wanted, taskId));
  };
  if (how.dryRun) {
    const run = async (run: TaskRun): Promise<string> => {
      using _ = await context.configs.manifests.hold(manifest, run.stopped);
      return rehearse(context, run, { aim, meant }, asked);
    };
    return { locks, ...ofCpis, run };
  }
  if (checkedByTaskId !== taskId) {
    return {
      locks,
      ...ofCpis,
      run: async (run) => {
        await context.tablet.transact(asked);
        return checkVms(context, run, name, { meant, shutOutIsLost: fix });
      },
    };
  }
  return {
    locks,
    ...ofCpis,
    run: async (run) => {
      using _ = await context.configs.manifests.hold(manifest, run.stopped);
      await updateInstances(context, run, { ...how, aim, meant });
      return `/deployments/${name}`;
    },
  };
};
