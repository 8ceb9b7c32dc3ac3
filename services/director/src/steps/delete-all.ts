import { locksOfStep } from "../model/deployment.js";
import { formatInstance } from "../model/instance.js";
import { instancesOf } from "../model/recorded-deployments.js";
import type { DirectorTables } from "../model/schema.js";
import type { TaskRun } from "../workers/task-run.js";
import { deleteIfThere } from "./dynamic-disk-steps.js";
import { deleteDiskByForce, deleteInstanceByForce } from "./force-delete.js";
import type { DeploymentJobContext } from "./job-context.js";
import { finish, runAll } from "./run-all.js";
import { runLane } from "./run-unit.js";
import { deleteInstance } from "./vm-steps.js";

/**
 * Deletes all that a deployment has, side by side, so many of each CPI at once: its instances, then its dynamic disks, so
 * that none of them is attached any more. One that fails keeps no other of its kind from being deleted: all failures are
 * told at the end.
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
