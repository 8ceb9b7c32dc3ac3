import { cpisOfStep } from "../cpi/cpi-target.js";
import { instancesOf, refuseIgnoredInstances } from "../instances/recorded-deployments.js";
import { problemKey } from "../store/schema.js";
import type { Planner } from "../tasks/job.js";
import { leftBehindBy } from "../vms/force-delete.js";
import type { DeploymentJobContext } from "./context.js";
import { emptyDeployment } from "./delete-all.js";
import { cpisOfDeployment } from "./deployment-steps.js";

/** Deletes a deployment with its VMs and its dynamic disks. */
export const deleteDeployment: Planner<"delete_deployment", DeploymentJobContext> = (context, job, tables, taskId) => {
  const { deployment: name, force } = job;
  const deployment = tables.deployments.get(name);
  const locks = [{ type: "deployment", resource: name }] as const;
  const ofCpis = cpisOfStep(context, tables, ...cpisOfDeployment(context, tables, name));
  if (deployment !== undefined && !deployment.deleting) {
    return {
      locks,
      ...ofCpis,
      run: async (run) => {
        await run.stage("Preparing deletion", name, () =>
          context.tablet.transact((tx) => {
            refuseIgnoredInstances(tx, name);
            tx.deployments.put({ ...deployment, deleting: true });
          }),
        );
        return undefined;
      },
    };
  }
  return {
    locks,
    ...ofCpis,
    run: async (run) => {
      await emptyDeployment(context, run, name, { force });
      return context.tablet.transact((tx) => {
        // A disk may have been created after the deletes. The job then continues.
        if (tx.disks.count("byDeployment", name) > 0 || instancesOf(tx, name).length > 0) return undefined;
        for (const { problemId } of [...tx.problems.by("byDeployment", name)])
          tx.problems.delete(problemKey(problemId));
        const left = leftBehindBy(taskId, tx.possibleOrphans.entries());
        return tx.deployments.delete(name)
          ? `deleted deployment \`${name}\`${left}`
          : `deployment \`${name}\` was already deleted`;
      });
    },
  };
};
