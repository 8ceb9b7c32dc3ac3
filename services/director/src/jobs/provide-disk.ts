import { notePhase } from "../metrics/observe-director.js";
import { diskTypeNamed } from "../model/cloud-config.js";
import { decideProvide } from "../model/disk-decisions.js";
import { instanceNamed, targetOf } from "../model/instance.js";
import type { JsonObject } from "../model/json.js";
import type { LockName } from "../model/locks.js";
import type { DirectorTables } from "../model/schema.js";
import { cpisOfStep } from "../steps/cpi-target.js";
import {
  attachDisk,
  createDisk,
  type DiskWish,
  intendAttachIn,
  setDiskMetadata,
  tellAgentOfDisk,
  wantedDisk,
} from "../steps/dynamic-disk-steps.js";
import type { JobContext } from "../steps/job-context.js";
import type { TaskRun } from "../workers/task-run.js";
import type { Planner, Step } from "./job.js";

interface Wanted extends DiskWish {
  readonly instanceId: string;
}

/**
 * Makes the disk if there is none, attaches it to the instance's VM, and tells the VM's agent. Which VM that is shows once
 * the instance's lock is held: until then another may be on its way.
 */
export const provideDisk: Planner<"provide_dynamic_disk"> = (
  context,
  { diskName, instanceId, pool, sizeMib, metadata },
  tables,
) => plan(context, tables, { diskName, instanceId, made: { pool, sizeMib }, metadata });

/** The same for a disk that must be there, as it is. */
export const attachDiskOnly: Planner<"attach_dynamic_disk"> = (context, job, tables) =>
  plan(context, tables, { ...job, made: undefined });

function plan(context: JobContext, tables: DirectorTables, wanted: Wanted): Step {
  const { cpi } = instanceNamed(wanted.instanceId, tables.instances.get(wanted.instanceId));
  const locks: LockName[] = [
    { type: "instance", resource: wanted.instanceId },
    { type: "disk", resource: wanted.diskName },
  ];
  return {
    locks,
    ...cpisOfStep(context, tables, cpi),
    recordsFirst: true,
    run: (run) => provide(context, run, wanted),
  };
}

async function provide(context: JobContext, run: TaskRun, wanted: Wanted): Promise<string> {
  let agentTold = false;
  for (;;) {
    run.checkpoint();
    const { disk, target, metadata, step, intended } = await context.tablet.transact((tx) => {
      const target = targetOf(wanted.instanceId, tx.instances.get(wanted.instanceId));
      const disk = tx.disks.get(wanted.diskName);
      const row = wantedDisk(context, tx, target, wanted);
      const step = decideProvide(disk, row, target, { agentTold });
      const intended = step.do === "attach" && disk ? intendAttachIn(context, run, tx, disk, target) : undefined;
      return { disk, target, metadata: row.metadata, step, intended };
    });
    if (step.do === "nothing") return step.result;
    const made = wanted.made ?? disk;
    const startedMs = context.clock.monotonicMs();
    if (step.do === "create" && made) {
      const { pool, sizeMib } = made;
      // What was asked for first is asked for again, whatever became of the disk type since.
      const cloudProperties = disk?.cloudProperties ?? (await cloudPropertiesOf(context, pool));
      const { deployment, az, cpi } = target;
      const intent = { name: wanted.diskName, deployment, az, cpi, pool, sizeMib, cloudProperties };
      await createDisk(context, run, intent, target.vmCid);
    } else if (step.do === "attach" && disk) {
      await attachDisk(context, run, disk, target, intended);
    } else if (step.do === "set_metadata" && disk && metadata) {
      await setDiskMetadata(context, run, disk, metadata);
    } else if (step.do === "tell_agent" && disk) {
      await tellAgentOfDisk(context, run, disk, target.agentId);
      agentTold = true;
    } else {
      throw new TypeError(`a provide cannot ${step.do}`);
    }
    notePhase(step.do, context.clock.monotonicMs() - startedMs);
  }
}

function cloudPropertiesOf(context: JobContext, pool: string): Promise<JsonObject> {
  return context.tablet.read((tables) => diskTypeNamed(context.cloudConfigs.current(tables), pool).cloudProperties);
}
