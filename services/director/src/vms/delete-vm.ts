import { allCpis, cpisOfStep } from "../cpi/cpi-target.js";
import { deleteUnrecorded } from "../cpi/delete-orphan.js";
import { compareLocks, type LockName } from "../locks/locks.js";
import { formatInstance, type Instance } from "../store/instance.js";
import type { Planner } from "../tasks/job.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { VmJobContext } from "./context.js";
import { deleteOutdatedVm } from "./vm-steps.js";

/**
 * Detaches a VM's disks and deletes the VM; its instance stays without a VM. A VM that is not recorded is deleted by
 * the CPI that has it.
 */
export const deleteVm: Planner<"delete_vm", VmJobContext> = (context, { vmCid }, tables) => {
  const [instance] = tables.instances.by("byVmCid", vmCid);
  if (instance === undefined) {
    const locks: LockName[] = [{ type: "instance", resource: vmCid }];
    return { locks, cpis: allCpis(context, tables), run: (run) => deleteUnknown(context, run, vmCid) };
  }
  const disks = [...tables.disks.by("byInstance", instance.instanceId)];
  const locks: LockName[] = [
    { type: "instance", resource: instance.instanceId },
    ...disks.map((disk): LockName => ({ type: "disk", resource: disk.name })),
  ];
  return {
    locks: locks.sort(compareLocks),
    ...cpisOfStep(context, tables, instance.cpi),
    run: (run) => deleteKnown(context, run, instance),
  };
};

async function deleteKnown(context: VmJobContext, run: TaskRun, instance: Instance): Promise<string> {
  await deleteOutdatedVm(context, run, instance, `its vm \`${instance.vmCid}\` is to be deleted`);
  return `deleted vm \`${instance.vmCid}\` of ${formatInstance(instance)}: the next deploy of \`${instance.deployment}\` makes another`;
}

async function deleteUnknown(context: VmJobContext, run: TaskRun, vmCid: string): Promise<string> {
  return run.stage("Delete VM", vmCid, async () => {
    const isFound = await deleteUnrecorded(context, run, { kind: "vm", cid: vmCid });
    return isFound ? `deleted vm \`${vmCid}\`` : `vm \`${vmCid}\` was already deleted`;
  });
}
