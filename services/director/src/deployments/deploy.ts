import { cpisOfStep } from "../cpi/cpi-target.js";
import { passDone } from "../instances/lifecycle.js";
import { instancesOf, refuseOtherTeams } from "../instances/recorded-deployments.js";
import type { LockName } from "../locks/locks.js";
import type { Instance } from "../store/instance.js";
import type { DirectorTransaction } from "../store/schema.js";
import type { Planner } from "../tasks/job.js";
import { WARNING } from "../tasks/task-event.js";
import type { TaskRun } from "../tasks/task-run.js";
import { checkVms } from "../vms/check-vms.js";
import type { DeploymentJobContext } from "./context.js";
import { cloudConfigIds, cpisOfDeployment, putManifest, recordManifest, refuseBareGroups } from "./deployment-steps.js";
import { rehearse } from "./rehearse.js";
import { reserveAddresses } from "./reserve-addresses.js";
import { updateInstances } from "./update-instances.js";

/** Plans the next step of a deploy. */
export const deploy: Planner<"update_deployment", DeploymentJobContext> = (context, job, tables, taskId) => {
  const { deployment: name, manifest, options } = job;
  const named = { name, text: manifest, teams: job.teams };
  // Another team may have created the deployment since the request.
  refuseOtherTeams(tables, name, job.teams ?? []);
  const deployment = tables.deployments.get(name);
  const locks: LockName[] = [{ type: "deployment", resource: name }];
  const { groups, warnings } = context.configs.manifests.get(manifest);
  const ofCpis = cpisOfStep(context, tables, ...cpisOfDeployment(context, tables, name, groups));
  const wanted = options.recreate ? "recreate" : "started";
  const aim = { deployment: name, taskId, wanted, follows: true, fixesLost: true } as const;
  const update = { aim, meant: (all: readonly Instance[]) => all };
  if (options.dryRun) {
    const run = async (run: TaskRun): Promise<string> => {
      await run.stage("Preparing deployment", name, () => refuseBareGroups(context, run, manifest));
      return rehearse(context, run, update, (tx) => putManifest(context, tx, named));
    };
    return { locks, ...ofCpis, run };
  }
  if (deployment === undefined || deployment.deleting || deployment.manifest !== manifest)
    return { locks, ...ofCpis, run: (run) => recordManifest(context, run, named) };
  if (deployment.checkedByTaskId !== taskId) {
    const isOfOtherConfigs = deployment.cloudConfigIds.join() !== cloudConfigIds(tables).join();
    return {
      locks,
      ...ofCpis,
      run: async (run) => {
        for (const message of warnings) run.event({ stage: WARNING, task: name, state: "finished", message });
        const pass = (tx: DirectorTransaction) => {
          for (const instance of instancesOf(tx, name)) tx.instances.put(passDone(instance, wanted, taskId));
        };
        if (options.recreate) await context.tablet.transact(pass);
        if (isOfOtherConfigs) await context.tablet.transact((tx) => putCloudConfigs(context, tx, name));
        return checkVms(context, run, name);
      },
    };
  }
  return {
    locks,
    ...ofCpis,
    run: async (run) => {
      await updateInstances(context, run, { ...update, ...options });
      return `/deployments/${name}`;
    },
  };
};

/** Records the latest cloud configs for an unchanged manifest and reserves the addresses. */
function putCloudConfigs(context: DeploymentJobContext, tx: DirectorTransaction, name: string): void {
  const deployment = tx.deployments.get(name);
  if (deployment === undefined) return;
  tx.deployments.put({ ...deployment, cloudConfigIds: cloudConfigIds(tx) });
  reserveAddresses(context, tx, name);
}
