import { decideDeleteDeployment, locksOfStep } from "../model/deployment.js";
import { instancesOf, refuseIgnoredInstances } from "../model/recorded-deployments.js";
import { problemKey } from "../model/schema.js";
import { cpisOfStep } from "../steps/cpi-target.js";
import { cpisOfDeployment } from "../steps/deployment-steps.js";
import { deleteIfThere } from "../steps/dynamic-disk-steps.js";
import { deleteDiskByForce, deleteInstanceByForce, leftBehindBy } from "../steps/force-delete.js";
import { deleteInstance } from "../steps/vm-steps.js";
import type { Planner } from "./job.js";

/** Deletes a deployment with its VMs and its dynamic disks. */
export const deleteDeployment: Planner<"delete_deployment"> = (context, job, tables, taskId) => {
  const { deployment: name } = job;
  const deployment = tables.deployments.get(name);
  const instances = instancesOf(tables, name);
  const ofCpis = cpisOfStep(context, tables, ...cpisOfDeployment(context, tables, name));
  const disks = [...tables.disks.by("byDeployment", name)];
  if (deployment !== undefined && !deployment.deleting) {
    return {
      locks: [{ type: "deployment", resource: name }],
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
  const step = decideDeleteDeployment(instances, disks);
  const attached = "instance" in step ? [...tables.disks.by("byInstance", step.instance.instanceId)] : [];
  return {
    locks: [{ type: "deployment", resource: name }, ...locksOfStep(step, attached)],
    ...ofCpis,
    run: async (run) => {
      const { force = false } = job;
      if (step.do === "delete_instance")
        await (force ? deleteInstanceByForce : deleteInstance)(context, run, step.instance);
      else if (step.do === "delete_disk" && force) await deleteDiskByForce(context, run, step.disk);
      else if (step.do === "delete_disk") await deleteIfThere(context, run, step.disk.name);
      else if (step.do === "nothing") {
        const deleted = await context.tablet.transact((tx) => {
          // A disk may have been asked for while nobody looked; then there is more to do.
          if (tx.disks.count("byDeployment", name) > 0) return undefined;
          for (const { problemId } of [...tx.problems.by("byDeployment", name)])
            tx.problems.delete(problemKey(problemId));
          return tx.deployments.delete(name);
        });
        if (deleted === undefined) return undefined;
        const left = leftBehindBy(taskId, tables.possibleOrphans.entries());
        return deleted ? `deleted deployment \`${name}\`${left}` : `deployment \`${name}\` was already deleted`;
      }
      return undefined;
    },
  };
};
