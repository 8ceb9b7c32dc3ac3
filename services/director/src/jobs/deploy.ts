import { type DeploymentStep, decideDeploy, locksOfStep } from "../model/deployment.js";
import type { Instance } from "../model/instance.js";
import { decidePersistentDisk, wantedPersistentDisk } from "../model/persistent-disk.js";
import type { DirectorTables } from "../schema.js";
import type { TaskRun } from "../workers/task-run.js";
import { recordManifest } from "./deployment-steps.js";
import type { JobContext, Planner } from "./job.js";
import { type PersistentDiskWork, persistentDiskOf, runPersistentDiskStep } from "./persistent-disk-steps.js";
import { groupOf, manifestOf } from "./vm-spec.js";
import { awaitVm, createVm, deleteInstance } from "./vm-steps.js";

/** Makes a deployment be as its manifest says. */
export const deploy: Planner<"update_deployment"> = (context, job, tables) => {
  const { deployment: name, manifest } = job;
  const deployment = tables.deployments.get(name);
  if (deployment === undefined || deployment.deleting || deployment.manifest !== manifest) {
    return {
      locks: [{ type: "deployment", resource: name }],
      run: async (run) => {
        await recordManifest(context, run, name, manifest);
        return undefined;
      },
    };
  }
  const workOf = persistentDiskWorkOf(context, tables, name);
  const step = decideDeploy(instancesOf(tables, name), (instance) => workOf(instance).step !== "nothing");
  const attached = "instance" in step ? [...tables.disks.by("byInstance", step.instance.instanceId)] : [];
  return {
    locks: locksOfStep(name, step, attached),
    run: async (run) => {
      if (step.do === "nothing") return `/deployments/${name}`;
      if (step.do === "persistent_disk") await runPersistentDiskStep(context, run, workOf(step.instance));
      else await runStep(context, run, step);
      return undefined;
    },
  };
};

async function runStep(context: JobContext, run: TaskRun, step: DeploymentStep): Promise<void> {
  if (step.do === "create_vm") await createVm(context, run, step.instance);
  else if (step.do === "await_agent") await awaitVm(context, run, step.instance);
  else if (step.do === "delete_instance") await deleteInstance(context, run, step.instance);
}

/** What an instance's persistent disk needs next. */
function persistentDiskWorkOf(
  context: JobContext,
  tables: DirectorTables,
  deployment: string,
): (instance: Instance) => PersistentDiskWork {
  const config = context.cloudConfigs.current(tables);
  const manifest = manifestOf(context, tables, deployment);
  return (instance) => {
    const wanted = wantedPersistentDisk(groupOf(manifest, instance), config);
    const disk = persistentDiskOf(tables, instance.instanceId);
    return { instance, disk, wanted, step: decidePersistentDisk(disk, wanted) };
  };
}

/** In order of group and index. */
export function instancesOf(tables: DirectorTables, deployment: string): Instance[] {
  return [...tables.instances.by("byDeployment", deployment)].sort((a, b) =>
    a.group < b.group ? -1 : a.group > b.group ? 1 : a.index - b.index,
  );
}
