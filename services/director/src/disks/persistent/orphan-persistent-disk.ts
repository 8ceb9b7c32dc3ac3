import { InvalidStateError } from "@diskmesh/domain";
import { cpisOfStep } from "../../cpi/cpi-target.js";
import { instanceNamed, mayRunJobs } from "../../instances/instance.js";
import { otherDiskOf } from "../../instances/recorded-deployments.js";
import { compareLocks, type LockName } from "../../locks/locks.js";
import { formatInstance, type Instance } from "../../store/instance.js";
import type { PersistentDisk } from "../../store/persistent-disk.js";
import type { DirectorTables } from "../../store/schema.js";
import type { Planner } from "../../tasks/job.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";
import { runPersistentDiskStep } from "./persistent-disk-steps.js";

/** Detaches an instance's persistent disk and makes it an orphan. */
export const orphanPersistentDisk: Planner<"orphan_persistent_disk", DiskJobContext> = (
  context,
  { diskCid },
  tables,
) => {
  const found = subjects(tables, diskCid);
  if (found === undefined) return { locks: [], cpis: [], run: async () => nothingToDo(diskCid) };
  const { instance, disk } = found;
  const locks: LockName[] = [
    { type: "instance", resource: instance.instanceId },
    { type: "disk", resource: disk.diskId },
  ];
  return {
    locks: locks.sort(compareLocks),
    ...cpisOfStep(context, tables, disk.cpi),
    run: (run) => orphan(context, run, diskCid),
  };
};

interface Subjects {
  readonly instance: Instance;
  readonly disk: PersistentDisk;
}

/** Returns undefined when no instance has the disk. Throws InvalidStateError when the disk must not be detached. */
function subjects(tables: DirectorTables, diskCid: string): Subjects | undefined {
  const [dynamic] = tables.disks.by("byCid", diskCid);
  if (dynamic !== undefined)
    throw new InvalidStateError(`disk \`${diskCid}\` is the dynamic disk \`${dynamic.name}\`: detach it by its name`);
  const [disk] = tables.persistentDisks.by("byCid", diskCid);
  if (disk === undefined || disk.orphanedAtMs !== null) return undefined;
  const instance = instanceNamed(disk.instanceId, tables.instances.get(disk.instanceId));
  const refuse = (why: string): never => {
    const about = { disk_cid: diskCid, instance_id: instance.instanceId };
    throw new InvalidStateError(`disk \`${diskCid}\` belongs to ${formatInstance(instance)}, ${why}`, { about });
  };
  if (instance.ignore) refuse("which is ignored: unignore the instance first");
  if (otherDiskOf(tables, instance.instanceId) !== undefined)
    refuse("and is being copied: deploy again to finish the copy first");
  if (mayRunJobs(instance)) refuse("whose jobs may be using the disk: stop the instance first");
  return { instance, disk };
}

async function orphan(context: DiskJobContext, run: TaskRun, diskCid: string): Promise<string> {
  let taken: Subjects | undefined;
  for (;;) {
    run.checkpoint();
    const found = await context.tablet.read((tables) => subjects(tables, diskCid));
    if (found === undefined) return taken === undefined ? nothingToDo(diskCid) : `disk ${diskCid} orphaned`;
    taken = found;
    const step = found.disk.state === "detached" ? "orphan" : "detach";
    await runPersistentDiskStep(context, run, { ...found, other: undefined, wanted: undefined, step });
  }
}

function nothingToDo(diskCid: string): string {
  return `disk \`${diskCid}\` belongs to no instance`;
}
