import { sameCpi } from "../model/cpi-choice.js";
import { type DeploymentStep, decideDeploy, locksOfStep } from "../model/deployment.js";
import type { Instance } from "../model/instance.js";
import type { LockName } from "../model/locks.js";
import {
  type AddressOwners,
  addressOwners,
  holderOf,
  instancesOf,
  persistentDiskOf,
} from "../model/recorded-deployments.js";
import type { DirectorTables } from "../model/schema.js";
import { decideVmChange, type VmChange } from "../model/vm-change.js";
import { checkVms } from "../steps/check-vms.js";
import { cpisOfStep } from "../steps/cpi-target.js";
import { cpisOfDeployment, recordManifest } from "../steps/deployment-steps.js";
import type { JobContext } from "../steps/job-context.js";
import { persistentDiskWorkOf, runPersistentDiskStep } from "../steps/persistent-disk-steps.js";
import { planVm, type VmPlan } from "../steps/vm-spec.js";
import { awaitVm, createVm, deleteInstance, deleteOutdatedVm, setVmMetadata } from "../steps/vm-steps.js";
import type { TaskRun } from "../workers/task-run.js";
import type { Planner } from "./job.js";

/** Makes a deployment be as its manifest says. */
export const deploy: Planner<"update_deployment"> = (context, job, tables, taskId) => {
  const { deployment: name, manifest } = job;
  const deployment = tables.deployments.get(name);
  const ownLock: LockName = { type: "deployment", resource: name };
  const { groups, warnings } = context.manifests.get(manifest);
  const ofCpis = cpisOfStep(context, tables, ...cpisOfDeployment(context, tables, name, groups));
  if (deployment === undefined || deployment.deleting || deployment.manifest !== manifest)
    return { locks: [ownLock], ...ofCpis, run: (run) => recordManifest(context, run, name, manifest) };
  if (deployment.checkedByTaskId !== taskId)
    return { locks: [ownLock], ...ofCpis, run: (run) => warnAndCheck(context, run, name, warnings) };
  const workOf = persistentDiskWorkOf(context, tables, name);
  let known: AddressOwners | undefined;
  const owners = (): AddressOwners => (known ??= addressOwners(tables));
  const planOf = (instance: Instance): VmPlan => planVm(context, tables, instance, owners());
  const step = decideDeploy(instancesOf(tables, name), {
    changeOf: vmChangeOf(context, tables, planOf),
    hasDiskWork: (instance) => workOf(instance).step !== "nothing",
    holderOf: (instance) => holderOf(owners(), instance, planOf(instance).ips),
  });
  const attached = "instance" in step ? [...tables.disks.by("byInstance", step.instance.instanceId)] : [];
  return {
    locks: locksOfStep(name, step, attached),
    ...ofCpis,
    run: async (run) => {
      if (step.do === "nothing") return `/deployments/${name}`;
      if (step.do === "persistent_disk") await runPersistentDiskStep(context, run, workOf(step.instance));
      else await runStep(context, run, step);
      return undefined;
    },
  };
};

/** Once for each task. */
function warnAndCheck(
  context: JobContext,
  run: TaskRun,
  name: string,
  warnings: readonly string[],
): Promise<undefined> {
  for (const message of warnings) run.event({ stage: "Warning", task: name, state: "finished", message });
  return checkVms(context, run, name);
}

async function runStep(context: JobContext, run: TaskRun, step: DeploymentStep): Promise<void> {
  if (step.do === "create_vm") await createVm(context, run, step.instance);
  else if (step.do === "await_agent") await awaitVm(context, run, step.instance);
  else if (step.do === "delete_instance") await deleteInstance(context, run, step.instance);
  else if (step.do === "delete_vm") await deleteOutdatedVm(context, run, step.instance, step.because);
  else if (step.do === "set_vm_metadata") await setVmMetadata(context, run, step.instance);
}

/** What becomes of an instance's VM by what the manifest and the configs say now. */
function vmChangeOf(
  context: JobContext,
  tables: DirectorTables,
  planOf: (instance: Instance) => VmPlan,
): (instance: Instance) => VmChange {
  const cpis = context.cpiConfigs.current(tables);
  return (instance) => {
    const disk = persistentDiskOf(tables, instance.instanceId);
    return decideVmChange(instance, planOf(instance), disk, (a, b) => sameCpi(a, b, cpis));
  };
}
