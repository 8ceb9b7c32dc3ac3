import type { LockName } from "../../locks/locks.js";
import type { Disk } from "../../store/disk.js";
import type { Step } from "../../tasks/job.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";
import { DiskSteps } from "../disk-steps.js";
import { dynamicDisks } from "./disk.js";

/**
 * Returns a step that fails without locks. A task does not wait for the lock of a disk outside of its scope, because the
 * wait would show what others do with the disk.
 */
export function failingStep(cpis: Pick<Step, "cpis">, error: Error): Step {
  return { locks: [], ...cpis, run: () => Promise.reject(error) };
}

/** Returns the locks of a change of the disk's attachment: the lock of the instance or host first, if there is one. */
export function locksOf({ instanceId, hostId }: Pick<Disk, "instanceId" | "hostId">, diskName: string): LockName[] {
  const disk = { type: "disk", resource: diskName } as const;
  if (hostId !== undefined) return [{ type: "host", resource: hostId }, disk];
  return instanceId === "" ? [disk] : [{ type: "instance", resource: instanceId }, disk];
}

export function dynamicDisk(context: DiskJobContext, run: TaskRun, name: string): DiskSteps<Disk> {
  return new DiskSteps(context, run, dynamicDisks, name, (tx) => tx.disks);
}
