import { randomUUID } from "node:crypto";
import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { cpisOfStep, recorded } from "../../cpi/cpi-target.js";
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
import { decideAdoption, persistentDiskAdopted, persistentDiskOrphaned, unknownDisk } from "./persistent-disk.js";
import { noteOrphaned, runPersistentDiskStep } from "./persistent-disk-steps.js";

type AttachJob = JobOf<"attach_orphaned_disk">;

/**
 * Gives an orphaned disk to an instance, or a disk of the instance's CPI that this director never knew. The instance's
 * current disk, if any, becomes an orphan.
 */
export const attachOrphanedDisk: Planner<"attach_orphaned_disk", DiskJobContext> = (context, job, tables) => {
  const newDiskId = randomUUID();
  const { instance, disk } = subjects(context, tables, job, newDiskId);
  const locks: LockName[] = [
    { type: "instance", resource: instance.instanceId },
    { type: "disk", resource: disk.diskId },
  ];
  return {
    locks: locks.sort(compareLocks),
    ...cpisOfStep(context, tables, disk.cpi),
    run: (run) => attach(context, run, job, newDiskId),
  };
};

interface Subjects {
  readonly instance: Instance;
  readonly disk: PersistentDisk;
  readonly current: PersistentDisk | undefined;
}

/**
 * Throws InvalidStateError when the instance cannot have the disk. A disk without a record is returned as an orphan
 * with the id `newDiskId`.
 */
function subjects(
  context: DiskJobContext,
  tables: DirectorTables,
  { diskCid, instanceId }: AttachJob,
  newDiskId: string,
): Subjects {
  const instance = instanceNamed(instanceId, tables.instances.get(instanceId));
  const [known] = tables.persistentDisks.by("byCid", diskCid);
  const disk = known ?? unknownDisk(instance, newDiskId, diskCid);
  const about = { disk_cid: diskCid, instance_id: instanceId };
  const refuse = (why: string): never => {
    throw new InvalidStateError(`disk \`${diskCid}\` cannot be attached to ${formatInstance(instance)}: ${why}`, {
      about,
    });
  };
  const [dynamic] = tables.disks.by("byCid", diskCid);
  if (dynamic !== undefined) refuse(`it is the dynamic disk \`${dynamic.name}\`: attach it by its name`);
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

async function attach(context: DiskJobContext, run: TaskRun, job: AttachJob, newDiskId: string): Promise<string> {
  const read = () => context.tablet.read((tables) => subjects(context, tables, job, newDiskId));
  const found = await read();
  if (found.disk.diskId === newDiskId) await requireThere(context, run, found);
  for (;;) {
    run.checkpoint();
    const { instance, disk, current } = await read();
    const step = decideAdoption(disk, current, instance);
    if (step === "nothing") {
      const isMounted = disk.state === "mounted";
      const when = isMounted ? "" : ` and is attached when the instance gets a vm: deploy \`${instance.deployment}\``;
      return `disk \`${disk.diskCid}\` belongs to ${formatInstance(instance)}${when}`;
    }
    if (step === "adopt") await adopt(context, run, { instance, disk, current });
    else {
      const of = step === "detach" ? current : disk;
      await runPersistentDiskStep(context, run, { instance, disk: of, other: undefined, wanted: undefined, step });
    }
  }
}

/** Throws NotFoundError unless the instance's CPI has the disk. */
async function requireThere(context: DiskJobContext, run: TaskRun, { disk, instance }: Subjects): Promise<void> {
  const { diskCid } = disk;
  if ((await context.cpi.call("hasDisk", recorded(disk), { diskCid }, run)).exists) return;
  const whose = disk.cpi === "" ? "the default CPI" : `CPI \`${disk.cpi}\``;
  throw new NotFoundError(`there is no disk \`${diskCid}\`: neither this director nor ${whose} knows it`, {
    about: { disk_cid: diskCid, instance_id: instance.instanceId },
  });
}

/** Replaces the disk in one transaction, so that the instance always has one of the disks. */
async function adopt(
  context: DiskJobContext,
  run: TaskRun,
  { instance, disk: wanted, current: former }: Subjects,
): Promise<void> {
  const { diskId, diskCid } = wanted;
  await run.stage("Attaching orphaned disk", `${diskCid} to ${formatInstance(instance)}`, () =>
    context.tablet.transact((tx) => {
      const [disk = wanted] = tx.persistentDisks.by("byCid", diskCid);
      const replaced = persistentDiskOf(tx, instance.instanceId);
      // The task holds the locks, so no other task can have changed the disks. Nobody can lock a disk without a record.
      if (disk.diskId !== diskId)
        throw new InvalidStateError(`disk \`${diskCid}\` was attached by another task meanwhile`);
      if (replaced !== undefined) tx.persistentDisks.put(persistentDiskOrphaned(replaced, context.clock.nowMs()));
      tx.persistentDisks.put(persistentDiskAdopted(disk, instance));
    }),
  );
  if (former !== undefined) noteOrphaned(context, run, former);
}
