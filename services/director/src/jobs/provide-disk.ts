import { notePhase } from "../metrics/observe-director.js";
import { diskTypeNamed } from "../model/cloud-config.js";
import type { Disk } from "../model/disk.js";
import { decideProvide } from "../model/disk-decisions.js";
import { instanceNamed, type Target, targetOf } from "../model/instance.js";
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
import type { DiskJobContext } from "../steps/job-context.js";
import type { TaskRun } from "../workers/task-run.js";
import type { Planner, Step } from "./job.js";

interface Wanted extends DiskWish {
  readonly instanceId: string;
}

/**
 * Makes the disk if there is none, attaches it to the instance's VM, and tells the VM's agent. Which VM that is shows once
 * the instance's lock is held: until then another may be on its way.
 */
export const provideDisk: Planner<"provide_dynamic_disk", DiskJobContext> = (
  context,
  { diskName, instanceId, pool, sizeMib, metadata },
  tables,
) => plan(context, tables, { diskName, instanceId, made: { pool, sizeMib }, metadata });

/** The same for a disk that must be there, as it is. */
export const attachDiskOnly: Planner<"attach_dynamic_disk", DiskJobContext> = (context, job, tables) =>
  plan(context, tables, { ...job, made: undefined });

function plan(context: DiskJobContext, tables: DirectorTables, wanted: Wanted): Step {
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

async function provide(context: DiskJobContext, run: TaskRun, wanted: Wanted): Promise<string> {
  let agentTold = false;
  const decide = (tables: DirectorTables) => {
    const target = targetOf(wanted.instanceId, tables.instances.get(wanted.instanceId));
    const disk = tables.disks.get(wanted.diskName);
    const row = wantedDisk(context, tables, target, wanted);
    const step = decideProvide(disk, row, target, { agentTold });
    return { disk, target, metadata: row.metadata, step };
  };
  const tell = async (disk: Disk, { agentId }: Target): Promise<void> => {
    await timed(context, "tell_agent", tellAgentOfDisk(context, run, disk, agentId));
    agentTold = true;
  };
  for (;;) {
    run.checkpoint();
    const { disk, target, metadata, step, intended } = await context.tablet.transact((tx) => {
      const decided = decide(tx);
      const { disk, target, step } = decided;
      const intended = step.do === "attach" && disk ? intendAttachIn(context, run, tx, disk, target) : undefined;
      return { ...decided, intended };
    });
    if (step.do === "nothing") return step.result;
    const made = wanted.made ?? disk;
    if (step.do === "create" && made) {
      const { pool, sizeMib } = made;
      // What was asked for first is asked for again, whatever became of the disk type since.
      const cloudProperties = disk?.cloudProperties ?? (await cloudPropertiesOf(context, pool));
      const { deployment, az, cpi } = target;
      const intent = { name: wanted.diskName, deployment, az, cpi, pool, sizeMib, cloudProperties };
      await timed(context, "create", createDisk(context, run, intent, target.vmCid));
    } else if (step.do === "attach" && disk) {
      await timed(context, "attach", attachDisk(context, run, disk, target, intended));
      // The intent to attach it is one to tell the agent of it, too: that need not wait until the hint is durable.
      const next = context.tablet.ahead(decide);
      if (next.step.do === "tell_agent" && next.disk) await tell(next.disk, target);
    } else if (step.do === "set_metadata" && disk && metadata) {
      await timed(context, "set_metadata", setDiskMetadata(context, run, disk, metadata));
    } else if (step.do === "tell_agent" && disk) {
      await tell(disk, target);
    } else {
      throw new TypeError(`a provide cannot ${step.do}`);
    }
  }
}

async function timed(
  context: DiskJobContext,
  phase: Parameters<typeof notePhase>[0],
  work: Promise<void>,
): Promise<void> {
  const startedMs = context.clock.monotonicMs();
  await work;
  notePhase(phase, context.clock.monotonicMs() - startedMs);
}

function cloudPropertiesOf(context: DiskJobContext, pool: string): Promise<JsonObject> {
  return context.tablet.read((tables) => diskTypeNamed(context.configs.cloud.current(tables), pool).cloudProperties);
}
