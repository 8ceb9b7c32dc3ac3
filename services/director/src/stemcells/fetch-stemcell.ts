import { taskKey } from "../store/schema.js";
import type { JobOf } from "../store/task.js";
import type { Planner } from "../tasks/job.js";
import { redirected } from "../tasks/task.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { StemcellJobContext } from "./context.js";
import { download } from "./download.js";

/** Downloads a stemcell, then turns the task into an update_stemcell task. */
export const fetchStemcell: Planner<"fetch_stemcell", StemcellJobContext> = (context, job) => ({
  locks: [],
  cpis: [],
  run: (run) => fetch(context, run, job),
});

async function fetch(context: StemcellJobContext, run: TaskRun, job: JobOf<"fetch_stemcell">): Promise<undefined> {
  const { location, digest, fix } = job;
  const { config, limits } = context;
  await run.stage("Update stemcell", "Downloading remote stemcell", async () => {
    const bytes = download(location, { ...config.stemcells, ...limits.stemcells }, run.stopped);
    await context.stemcellFiles.receive(bytes, digest, ({ uploadId, manifest }) => {
      const { name, version, operatingSystem, apiVersion, formats, cloudProperties } = manifest;
      const facts = { name, version, operatingSystem, apiVersion, formats, cloudProperties };
      return context.tablet.transact((tx) => {
        const task = tx.tasks.get(taskKey(run.taskId));
        // A running task is always recorded.
        if (task === undefined) throw new TypeError("a task vanished while it ran");
        tx.tasks.put(redirected(task, { type: "update_stemcell", ...facts, uploadId, fix }));
      });
    });
  });
  return undefined;
}
