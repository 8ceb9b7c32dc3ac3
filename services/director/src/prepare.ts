import type { JobContext } from "./job-context.js";
import type { DirectorTables } from "./store/schema.js";
import type { Job } from "./store/task.js";

/**
 * Loads the manifest that a job's steps read, and holds it in memory until the result is disposed. Returns undefined
 * for a job that reads no manifest.
 */
export async function prepareJob(
  { configs, tablet }: Pick<JobContext, "configs" | "tablet">,
  job: Job,
  signal: AbortSignal,
): Promise<Disposable | undefined> {
  if (job.type === "update_deployment") return configs.manifests.hold(job.manifest, signal);
  const recorded = tablet.ahead((tables) => tables.deployments.get(deploymentOf(job, tables))?.manifest);
  return recorded === undefined ? undefined : configs.manifests.hold(recorded, signal);
}

/** Returns the deployment whose last manifest the job reads; empty when the job reads no recorded manifest. */
function deploymentOf(job: Job, tables: DirectorTables): string {
  if (job.type === "take_snapshots") return job.deployment;
  if (job.type === "attach_orphaned_disk") return tables.instances.get(job.instanceId)?.deployment ?? "";
  return "";
}
