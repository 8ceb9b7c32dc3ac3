import { diskTypeNamed } from "../model/cloud-config.js";
import { sameCpi } from "../model/cpi-choice.js";
import { decideProvide, type WantedDisk } from "../model/disk-decisions.js";
import { targetOf } from "../model/instance.js";
import type { JsonObject } from "../model/json.js";
import type { LockName } from "../model/locks.js";
import { cpisOfStep } from "../steps/cpi-target.js";
import { attachDisk, createDisk, metadataFor, setDiskMetadata, tellAgentOfDisk } from "../steps/dynamic-disk-steps.js";
import type { JobContext } from "../steps/job-context.js";
import type { TaskRun } from "../workers/task-run.js";
import type { Planner } from "./job.js";

interface Wanted {
  readonly diskName: string;
  readonly instanceId: string;
  readonly made: WantedDisk["made"];
  readonly metadata: JsonObject | null;
}

/** Makes the disk if there is none, attaches it to the instance's VM, and tells the VM's agent. */
export const provideDisk: Planner<"provide_dynamic_disk"> = (context, job, tables) => {
  const { cpi } = targetOf(job.instanceId, tables.instances.get(job.instanceId));
  const { diskName, instanceId, pool, sizeMib, metadata } = job;
  const wanted = { diskName, instanceId, made: { pool, sizeMib }, metadata };
  const ofCpis = cpisOfStep(context, tables, cpi);
  return { locks: locksOf(wanted), ...ofCpis, run: (run) => provide(context, run, wanted) };
};

/** The same for a disk that must be there, as it is. */
export const attachDiskOnly: Planner<"attach_dynamic_disk"> = (context, job, tables) => {
  const { cpi } = targetOf(job.instanceId, tables.instances.get(job.instanceId));
  const { diskName, instanceId, metadata } = job;
  const wanted = { diskName, instanceId, made: undefined, metadata };
  const ofCpis = cpisOfStep(context, tables, cpi);
  return { locks: locksOf(wanted), ...ofCpis, run: (run) => provide(context, run, wanted) };
};

function locksOf(wanted: Wanted): LockName[] {
  return [
    { type: "instance", resource: wanted.instanceId },
    { type: "disk", resource: wanted.diskName },
  ];
}

async function provide(context: JobContext, run: TaskRun, wanted: Wanted): Promise<string> {
  let agentTold = false;
  for (;;) {
    run.checkpoint();
    const { disk, target, metadata, step } = await context.tablet.read((tables) => {
      const target = targetOf(wanted.instanceId, tables.instances.get(wanted.instanceId));
      const disk = tables.disks.get(wanted.diskName);
      const metadata = metadataFor(context, target.deployment, wanted.metadata);
      const { deployment, az, cpi } = target;
      const cpis = context.cpiConfigs.current(tables);
      const same = (other: string): boolean => sameCpi(cpi, other, cpis);
      const row = { name: wanted.diskName, deployment, az, cpi, sameCpi: same, made: wanted.made, metadata };
      return { disk, target, metadata, step: decideProvide(disk, row, target, { agentTold }) };
    });
    if (step.do === "nothing") return step.result;
    const made = wanted.made ?? disk;
    if (step.do === "create" && made) {
      const { pool, sizeMib } = made;
      // What was asked for first is asked for again, whatever became of the disk type since.
      const cloudProperties = disk?.cloudProperties ?? (await cloudPropertiesOf(context, pool));
      const { deployment, az, cpi } = target;
      const intent = { name: wanted.diskName, deployment, az, cpi, pool, sizeMib, cloudProperties };
      await createDisk(context, run, intent, target.vmCid);
    } else if (step.do === "attach") {
      await attachDisk(context, run, wanted.diskName, target);
    } else if (step.do === "set_metadata" && disk && metadata) {
      await setDiskMetadata(context, run, disk, metadata);
    } else if (step.do === "tell_agent" && disk) {
      await tellAgentOfDisk(context, run, disk, target.agentId);
      agentTold = true;
    } else {
      throw new TypeError(`a provide cannot ${step.do}`);
    }
  }
}

function cloudPropertiesOf(context: JobContext, pool: string): Promise<JsonObject> {
  return context.tablet.read((tables) => diskTypeNamed(context.cloudConfigs.current(tables), pool).cloudProperties);
}
