import { cpisOfStep } from "../cpi/cpi-target.js";
import { changeable, selectInstances, want } from "../instances/lifecycle.js";
import { instancesOf, refuseUnlessOpen } from "../instances/recorded-deployments.js";
import type { LockName } from "../locks/locks.js";
import type { Instance } from "../store/instance.js";
import type { DirectorTransaction } from "../store/schema.js";
import type { Planner } from "../tasks/job.js";
import type { TaskRun } from "../tasks/task-run.js";
import { checkVms } from "../vms/check-vms.js";
import type { DeploymentJobContext } from "./context.js";
import { cpisOfDeployment } from "./deployment-steps.js";
import { rehearse } from "./rehearse.js";
import { updateInstances } from "./update-instances.js";

/** Brings instances into the requested state, based on the last deployed manifest. */
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
