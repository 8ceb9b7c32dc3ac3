import { passDone } from "../model/lifecycle.js";
import type { LockName } from "../model/locks.js";
import { instancesOf } from "../model/recorded-deployments.js";
import type { DirectorTransaction } from "../model/schema.js";
import { WARNING } from "../model/task-event.js";
import { checkVms } from "../steps/check-vms.js";
import { cpisOfStep } from "../steps/cpi-target.js";
import { cpisOfDeployment, recordManifest } from "../steps/deployment-steps.js";
import { updateInstances } from "../steps/update-instances.js";
import type { Planner } from "./job.js";

const NO_OPTIONS = { recreate: false, skipDrain: false, canaries: "", maxInFlight: "" } as const;

/** Makes a deployment be as its manifest says. */
export const deploy: Planner<"update_deployment"> = (context, job, tables, taskId) => {
  const { deployment: name, manifest, options = NO_OPTIONS } = job;
  const deployment = tables.deployments.get(name);
  const locks: LockName[] = [{ type: "deployment", resource: name }];
  const { groups, warnings } = context.manifests.get(manifest);
  const ofCpis = cpisOfStep(context, tables, ...cpisOfDeployment(context, tables, name, groups));
  if (deployment === undefined || deployment.deleting || deployment.manifest !== manifest)
    return { locks, ...ofCpis, run: (run) => recordManifest(context, run, name, manifest) };
  const wanted = options.recreate ? "recreate" : "started";
  if (deployment.checkedByTaskId !== taskId) {
    return {
      locks,
      ...ofCpis,
      run: async (run) => {
        for (const message of warnings) run.event({ stage: WARNING, task: name, state: "finished", message });
        const pass = (tx: DirectorTransaction) => {
          for (const instance of instancesOf(tx, name)) tx.instances.put(passDone(instance, wanted, taskId));
        };
        if (options.recreate) await context.tablet.transact(pass);
        return checkVms(context, run, name);
      },
    };
  }
  const aim = { deployment: name, taskId, wanted, follows: true, fixesLost: true } as const;
  return {
    locks,
    ...ofCpis,
    run: async (run) => {
      await updateInstances(context, run, { aim, meant: (all) => all, ...options });
      return `/deployments/${name}`;
    },
  };
};
