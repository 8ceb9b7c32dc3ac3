import { deleteIfThere } from "../disks/dynamic/delete.js";
import { instancesOf } from "../instances/recorded-deployments.js";
import { formatInstance } from "../store/instance.js";
import type { DirectorTables } from "../store/schema.js";
import { finish, runAll } from "../tasks/run-all.js";
import { runLane } from "../tasks/run-lane.js";
import type { TaskRun } from "../tasks/task-run.js";
import { deleteDiskByForce, deleteInstanceByForce } from "../vms/force-delete.js";
import { deleteInstance } from "../vms/vm-steps.js";
import type { DeploymentJobContext } from "./context.js";
import { locksOfStep } from "./deployment.js";

/**
 * Deletes the instances of a deployment and then its dynamic disks, which are detached by then. Runs concurrently
 * within the limit of each CPI. A failure does not stop deletes of the same kind; all failures are reported at the end.
 */
export async function emptyDeployment(
  context: DeploymentJobContext,
  run: TaskRun,
  deployment: string,
  { force }: { readonly force: boolean },
): Promise<void> {
  const all = await context.tablet.read((tables) => instancesOf(tables, deployment));
  const instances = all.map(({ instanceId, cpi, ...rest }) => ({
    key: instanceId,
    cpi,
    name: formatInstance({ instanceId, ...rest }),
  }));
  await deleteEach(context, run, "instances", instances, (key) => deleteOneInstance(context, run, key, force));
  const left = await context.tablet.read((tables) => [...tables.disks.by("byDeployment", deployment)]);
  const disks = left.map(({ name, cpi }) => ({ key: name, cpi, name: `dynamic disk ${name}` }));
  await deleteEach(context, run, "dynamic disks", disks, (key) => deleteOneDisk(context, run, key, force));
}

interface Thing {
  readonly key: string;
  readonly cpi: string;
  readonly name: string;
}

async function deleteEach(
  context: DeploymentJobContext,
  run: TaskRun,
  what: string,
  things: readonly Thing[],
  deleteOne: (key: string) => Promise<void>,
): Promise<void> {
  const how = { atOnce: things.length, goesOn: true };
  const failures = await runAll(run, things, how, ({ cpi, key }) =>
    context.vmSlots(cpi).run(() => deleteOne(key), run.stopped),
  );
  finish(run, failures, what);
}

function deleteOneInstance(
  context: DeploymentJobContext,
  run: TaskRun,
  instanceId: string,
  force: boolean,
): Promise<void> {
  return runLane(
    context,
    run,
    (tables: DirectorTables) => {
      const instance = tables.instances.get(instanceId);
      if (instance === undefined) return undefined;
      const attached = tables.disks.by("byInstance", instanceId);
      return { instance, locks: locksOfStep({ do: "delete_instance", instance }, [...attached]) };
    },
    (lane, { instance }) => (force ? deleteInstanceByForce : deleteInstance)(context, lane, instance),
  );
}

function deleteOneDisk(context: DeploymentJobContext, run: TaskRun, name: string, force: boolean): Promise<void> {
  return runLane(
    context,
    run,
    (tables: DirectorTables) => {
      const disk = tables.disks.get(name);
      return disk && { disk, locks: [{ type: "disk", resource: name }] as const };
    },
    async (lane, { disk }) => {
      if (force) await deleteDiskByForce(context, lane, disk);
      else await deleteIfThere(context, lane, name);
    },
  );
}
