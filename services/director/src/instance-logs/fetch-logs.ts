import { DomainError, InvalidStateError, isJsonObject } from "@diskmesh/domain";
import { selectInstances } from "../instances/lifecycle.js";
import { instancesOf, requireDeployment } from "../instances/recorded-deployments.js";
import { formatInstance, type Instance } from "../store/instance.js";
import type { JobOf } from "../store/task.js";
import type { Planner } from "../tasks/job.js";
import { finish, runAll } from "../tasks/run-all.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { LogJobContext } from "./context.js";
import type { PackedFile } from "./packed.js";

const METHOD = "fetch_logs_with_signed_url";

/**
 * Has agents upload their logs and packs the logs into one file. Skips instances without a VM. A failed agent is
 * reported in the task's events; the task fails only when all agents fail. The task's result is its id, by which
 * clients download the file.
 */
export const fetchLogs: Planner<"fetch_logs", LogJobContext> = (context, job, tables) => {
  requireDeployment(tables, job.deployment);
  const selected = selectInstances(instancesOf(tables, job.deployment), job.selection);
  const instances = selected.filter(({ agentId }) => agentId !== "");
  if (instances.length === 0) throw new InvalidStateError("no logs can be fetched: none of these instances has a VM");
  return {
    locks: [],
    cpis: [],
    run: async (run) => {
      await context.logFiles.make(run.taskId, (folder) => gather(context, run, job, instances, folder));
      return String(run.taskId);
    },
  };
};

async function gather(
  context: LogJobContext,
  run: TaskRun,
  job: JobOf<"fetch_logs">,
  instances: readonly Instance[],
  folder: string,
): Promise<readonly PackedFile[]> {
  const files: PackedFile[] = [];
  const named = instances.map((instance) => ({ instance, name: formatInstance(instance) }));
  const how = { atOnce: context.limits.agents.maxConcurrentChecks, goesOn: true };
  const failures = await runAll(run, named, how, async ({ instance, name }) => {
    const fetched = run.stage("Fetching logs", name, () => fetch(context, run, job, instance, folder));
    files.push(await fetched);
  });
  run.checkpoint();
  const isBug = failures.some(({ error }) => !(error instanceof DomainError));
  if (files.length === 0 || isBug) finish(run, failures);
  return files.sort((a, b) => (a.name < b.name ? -1 : 1));
}

async function fetch(
  { agents, limits, logFiles }: LogJobContext,
  run: TaskRun,
  { logTypes, filters }: JobOf<"fetch_logs">,
  { agentId, group, instanceId }: Instance,
  folder: string,
): Promise<PackedFile> {
  const upload = logFiles.expect(folder, `${group}.${instanceId}.tgz`);
  const { url, headers } = upload.destination;
  const wanted = { signed_url: url, log_type: logTypes.join(","), filters, blobstore_headers: headers };
  try {
    const options = { signal: run.stopped, timeoutMs: limits.agentLogs.timeoutMs };
    const said = await agents.call(agentId, METHOD, [wanted], options);
    return upload.taken(isJsonObject(said) && typeof said.sha1 === "string" ? said.sha1 : "");
  } catch (error) {
    run.checkpoint();
    throw upload.refusal ?? error;
  } finally {
    await upload.end();
  }
}
