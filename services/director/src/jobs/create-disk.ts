import { azNamed, diskTypeNamed } from "../model/cloud-config.js";
import { cpiOfAz } from "../model/cpi-choice.js";
import { decideCreate } from "../model/disk-decisions.js";
import { refuseUnlessOpen } from "../model/recorded-deployments.js";
import type { JobOf } from "../model/task.js";
import { cpisOfStep } from "../steps/cpi-target.js";
import { createDisk, setDiskMetadata, wantedDisk } from "../steps/dynamic-disk-steps.js";
import type { DiskJobContext } from "../steps/job-context.js";
import type { TaskRun } from "../workers/task-run.js";
import type { Planner } from "./job.js";

type CreateJob = JobOf<"create_dynamic_disk">;

/** Makes a disk and attaches it to nothing. */
export const createDiskOnly: Planner<"create_dynamic_disk", DiskJobContext> = (context, job, tables) => {
  refuseUnlessOpen(tables, job.deployment);
  const az = azNamed(context.configs.cloud.current(tables), job.az);
  return {
    locks: [{ type: "disk", resource: job.diskName }],
    ...cpisOfStep(context, tables, az.cpi),
    run: (run) => create(context, run, job),
  };
};

async function create(context: DiskJobContext, run: TaskRun, job: CreateJob): Promise<string> {
  for (;;) {
    run.checkpoint();
    const { disk, metadata, step, intent } = await context.tablet.read((tables) => {
      const config = context.configs.cloud.current(tables);
      const { diskName, deployment, pool, sizeMib, metadata } = job;
      const az = azNamed(config, job.az);
      const place = { deployment, az: az.name, cpi: cpiOfAz(az, context.configs.cpi.current(tables)) };
      const disk = tables.disks.get(diskName);
      const row = wantedDisk(context, tables, place, { diskName, made: { pool, sizeMib }, metadata });
      const cloudProperties = disk?.cloudProperties ?? diskTypeNamed(config, pool).cloudProperties;
      const intent = { name: diskName, ...place, pool, sizeMib, cloudProperties };
      return { disk, metadata: row.metadata, step: decideCreate(disk, row), intent };
    });
    if (step.do === "nothing") return step.result;
    if (step.do === "create") await createDisk(context, run, intent, "");
    else if (step.do === "set_metadata" && disk && metadata) await setDiskMetadata(context, run, disk, metadata);
    else throw new TypeError(`a creation cannot ${step.do}`);
  }
}
