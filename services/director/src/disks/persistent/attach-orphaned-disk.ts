import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { cpisOfStep } from "../../cpi/cpi-target.js";
import { instanceNamed, mayRunJobs } from "../../instances/instance.js";
import { otherDiskOf, persistentDiskOf } from "../../instances/recorded-deployments.js";
import { compareLocks, type LockName } from "../../locks/locks.js";
import { sameCpi } from "../../specs/cpi-choice.js";
import { formatInstance, type Instance } from "../../store/instance.js";
import type { PersistentDisk } from "../../store/persistent-disk.js";
import type { DirectorTables } from "../../store/schema.js";
import type { JobOf } from "../../store/task.js";
import type { Planner } from "../../tasks/job.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";
import { decideAdoption, persistentDiskAdopted, persistentDiskOrphaned } from "./persistent-disk.js";
import { noteOrphaned, runPersistentDiskStep } from "./persistent-disk-steps.js";

type AttachJob = JobOf<"attach_orphaned_disk">;

/** Gives an orphaned disk to an instance. The instance's current disk, if any, becomes an orphan. */
export const attachOrphanedDisk: Planner<"attach_orphaned_disk", DiskJobContext> = (context, job, tables) => {
  const { instance, disk } = subjects(context, tables, job);
  const locks: LockName[] = [
    { type: "instance", resource: instance.instanceId },
    { type: "disk", resource: disk.diskId },
  ];
  return {
    locks: locks.sort(compareLocks),
    ...cpisOfStep(context, tables, disk.cpi),
    run: (run) => attach(context, run, job),
  };
};

/** Throws InvalidStateError when the instance cannot have the disk. */
function subjects(
  context: DiskJobContext,
  tables: DirectorTables,
  { diskCid, instanceId }: AttachJob,
): { readonly instance: Instance; readonly disk: PersistentDisk; readonly current: PersistentDisk | undefined } {
  const instance = instanceNamed(instanceId, tables.instances.get(instanceId));
  const [disk] = tables.persistentDisks.by("byCid", diskCid);
  const about = { disk_cid: diskCid, instance_id: instanceId };
  if (disk === undefined)
    throw new NotFoundError(`there is no orphaned disk \`${diskCid}\`: see ListPersistentDisks`, { about });
  const refuse = (why: string): never => {
    throw new InvalidStateError(`disk \`${diskCid}\` cannot be attached to ${formatInstance(instance)}: ${why}`, {
      about,
    });
  };
  if (instance.ignore) refuse("the instance is ignored: unignore the instance first");
  if (instance.leaving) refuse("the manifest has no place for the instance any more");
  if (otherDiskOf(tables, instanceId) !== undefined)
    refuse("the instance's disk is being copied: deploy again to finish the copy first");
  if (disk.orphanedAtMs === null && disk.instanceId !== instanceId)
    refuse(`the disk belongs to ${formatInstance(disk)}`);
  if (disk.az !== instance.az) refuse(`the disk is in AZ \`${disk.az}\`, the instance in AZ \`${instance.az}\``);
  const hasVm = instance.vmState !== "none" && instance.vmState !== "creating";
  if (hasVm && !sameCpi(disk.cpi, instance.cpi, context.configs.cpi.current(tables)))
    refuse(`the disk uses CPI \`${disk.cpi}\`, the instance's vm CPI \`${instance.cpi}\``);
  // A BOSH director refuses this too, because jobs would continue with files of the current disk or with an empty
  // folder.
  if (disk.orphanedAtMs !== null && mayRunJobs(instance))
    refuse("the instance's jobs may be running: stop the instance first");
  return { instance, disk, current: persistentDiskOf(tables, instanceId) };
}

async function attach(context: DiskJobContext, run: TaskRun, job: AttachJob): Promise<string> {
  for (;;) {
    run.checkpoint();
    const { instance, disk, current } = await context.tablet.read((tables) => subjects(context, tables, job));
    const step = decideAdoption(disk, current, instance);
    if (step === "nothing") {
      const isMounted = disk.state === "mounted";
      const when = isMounted ? "" : ` and is attached when the instance gets a vm: deploy \`${instance.deployment}\``;
      return `disk \`${disk.diskCid}\` belongs to ${formatInstance(instance)}${when}`;
    }
    if (step === "adopt") await adopt(context, run, instance, disk, current);
    else {
      const of = step === "detach" ? current : disk;
      await runPersistentDiskStep(context, run, { instance, disk: of, other: undefined, wanted: undefined, step });
    }
  }
}

/** Replaces the disk in one transaction, so that the instance always has one of the disks. */
async function adopt(
  context: DiskJobContext,
  run: TaskRun,
  instance: Instance,
  { diskId, diskCid }: PersistentDisk,
  former: PersistentDisk | undefined,
): Promise<void> {
  await run.stage("Attaching orphaned disk", `${diskCid} to ${formatInstance(instance)}`, () =>
    context.tablet.transact((tx) => {
      const disk = tx.persistentDisks.get(diskId);
      const replaced = persistentDiskOf(tx, instance.instanceId);
      // The task holds the locks, so no other task can have changed the disks.
      if (disk === undefined) throw new TypeError("a disk vanished while it was locked");
      if (replaced !== undefined) tx.persistentDisks.put(persistentDiskOrphaned(replaced, context.clock.nowMs()));
      tx.persistentDisks.put(persistentDiskAdopted(disk, instance));
    }),
  );
  if (former !== undefined) noteOrphaned(context, run, former);
}
