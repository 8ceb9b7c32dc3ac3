import { updateInstanceStates } from "./deployments/change-instances.js";
import { deleteDeployment } from "./deployments/delete-deployment.js";
import { deploy } from "./deployments/deploy.js";
import { resizeDynamicDisk, setDynamicDiskLimits } from "./disks/dynamic/change.js";
import { createDiskOnly } from "./disks/dynamic/create.js";
import { deleteDynamicDisk } from "./disks/dynamic/delete.js";
import { detachDynamicDisk } from "./disks/dynamic/detach.js";
import { attachDiskOnly, provideDisk } from "./disks/dynamic/provide.js";
import { notifyAgentsAgain } from "./disks/dynamic/tell-agents.js";
import { undeleteDynamicDisk } from "./disks/dynamic/undelete.js";
import { attachOrphanedDisk } from "./disks/persistent/attach-orphaned-disk.js";
import { deleteOrphanedDisk } from "./disks/persistent/delete-orphaned-disk.js";
import { deleteSnapshots } from "./disks/persistent/delete-snapshots.js";
import { orphanPersistentDisk } from "./disks/persistent/orphan-persistent-disk.js";
import { takeSnapshots } from "./disks/persistent/take-snapshots.js";
import { settleRemovalsOfAgent } from "./disks/settle.js";
import { resolveProblems } from "./health/resolve-problems.js";
import { resurrectInstances } from "./health/resurrect-instances.js";
import { scanDeployment } from "./health/scan-deployment.js";
import { fetchLogs } from "./instance-logs/fetch-logs.js";
import { retrieveVmStats } from "./instances/retrieve-vm-stats.js";
import type { JobContext } from "./job-context.js";
import { cleanUp } from "./stemcells/clean-up.js";
import { deleteStemcell } from "./stemcells/delete-stemcell.js";
import { fetchStemcell } from "./stemcells/fetch-stemcell.js";
import { updateStemcell } from "./stemcells/update-stemcell.js";
import type { DirectorTables } from "./store/schema.js";
import type { Job, JobOf, JobType } from "./store/task.js";
import type { Plan, Planner } from "./tasks/job.js";
import { callVendorMethod } from "./vendor-methods/call-vendor-method.js";
import { deleteVm } from "./vms/delete-vm.js";
import { renewAgentCertificates } from "./vms/renew-agent-certificates.js";

const planners: { readonly [Type in JobType]: Planner<Type, JobContext> } = {
  provide_dynamic_disk: provideDisk,
  create_dynamic_disk: createDiskOnly,
  attach_dynamic_disk: attachDiskOnly,
  resize_dynamic_disk: resizeDynamicDisk,
  set_dynamic_disk_limits: setDynamicDiskLimits,
  detach_dynamic_disk: detachDynamicDisk,
  delete_dynamic_disk: deleteDynamicDisk,
  undelete_dynamic_disk: undeleteDynamicDisk,
  update_deployment: deploy,
  update_instances: updateInstanceStates,
  delete_deployment: deleteDeployment,
  update_stemcell: updateStemcell,
  fetch_stemcell: fetchStemcell,
  delete_stemcell: deleteStemcell,
  delete_vm: deleteVm,
  clean_up: cleanUp,
  retrieve_vm_stats: retrieveVmStats,
  fetch_logs: fetchLogs,
  delete_orphaned_disk: deleteOrphanedDisk,
  orphan_persistent_disk: orphanPersistentDisk,
  attach_orphaned_disk: attachOrphanedDisk,
  take_snapshots: takeSnapshots,
  delete_snapshots: deleteSnapshots,
  settle_owed_removals: settleRemovalsOfAgent,
  renew_agent_certificates: renewAgentCertificates,
  tell_agents: notifyAgentsAgain,
  resurrect_instances: resurrectInstances,
  scan_deployment: scanDeployment,
  resolve_problems: resolveProblems,
  call_vendor_method: callVendorMethod,
};

export function planWith(context: JobContext): Plan {
  return <Type extends JobType>(job: JobOf<Type>, tables: DirectorTables, taskId: number) =>
    (planners[job.type as Type] as Planner<Type, JobContext>)(context, job, tables, taskId);
}

/** Returns the CPIs that a job may call according to the recorded state; none when the job cannot be planned. */
export function cpisOfJob(plan: Plan, job: Job, tables: DirectorTables): readonly string[] {
  try {
    return plan(job, tables, 0).cpis;
  } catch {
    return [];
  }
}
