import type { DirectorTables } from "../model/schema.js";
import type { Job, JobOf, JobType } from "../model/task.js";
import type { JobContext } from "../steps/job-context.js";
import { attachOrphanedDisk } from "./attach-orphaned-disk.js";
import { callVendorMethod } from "./call-vendor-method.js";
import { cleanUp } from "./clean-up.js";
import { createDiskOnly } from "./create-disk.js";
import { deleteDeployment } from "./delete-deployment.js";
import { deleteDynamicDisk } from "./delete-disk.js";
import { deleteOrphanedDisk } from "./delete-orphaned-disk.js";
import { deleteSnapshots } from "./delete-snapshots.js";
import { deleteStemcell } from "./delete-stemcell.js";
import { deleteVm } from "./delete-vm.js";
import { deploy } from "./deploy.js";
import { detachDynamicDisk } from "./detach-disk.js";
import { fetchLogs } from "./fetch-logs.js";
import { fetchStemcell } from "./fetch-stemcell.js";
import type { Plan, Planner } from "./job.js";
import { orphanPersistentDisk } from "./orphan-persistent-disk.js";
import { attachDiskOnly, provideDisk } from "./provide-disk.js";
import { renewAgentCertificates } from "./renew-agent-certificates.js";
import { resolveProblems } from "./resolve-problems.js";
import { resurrectInstances } from "./resurrect-instances.js";
import { retrieveVmStats } from "./retrieve-vm-stats.js";
import { scanDeployment } from "./scan-deployment.js";
import { settleRemovalsOfAgent } from "./settle-owed-removals.js";
import { takeSnapshots } from "./take-snapshots.js";
import { tellAgentsAgain } from "./tell-agents.js";
import { updateInstanceStates } from "./update-instances.js";
import { updateStemcell } from "./update-stemcell.js";

/** Who plans which job. */
const planners: { readonly [Type in JobType]: Planner<Type, JobContext> } = {
  provide_dynamic_disk: provideDisk,
  create_dynamic_disk: createDiskOnly,
  attach_dynamic_disk: attachDiskOnly,
  detach_dynamic_disk: detachDynamicDisk,
  delete_dynamic_disk: deleteDynamicDisk,
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
  tell_agents: tellAgentsAgain,
  resurrect_instances: resurrectInstances,
  scan_deployment: scanDeployment,
  resolve_problems: resolveProblems,
  call_vendor_method: callVendorMethod,
};

/** Returns what plans the next step of any job. */
export function planWith(context: JobContext): Plan {
  return <Type extends JobType>(job: JobOf<Type>, tables: DirectorTables, taskId: number) =>
    (planners[job.type as Type] as Planner<Type, JobContext>)(context, job, tables, taskId);
}

/** The CPIs that a job may have to ask, by what is recorded now; none when it cannot be planned. */
export function cpisOfJob(plan: Plan, job: Job, tables: DirectorTables): readonly string[] {
  try {
    return plan(job, tables, 0).cpis;
  } catch {
    return [];
  }
}
