import type { Disk } from "../../store/disk.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";
import { DiskSteps } from "../disk-steps.js";
import { dynamicDisks } from "./disk.js";

export function dynamicDisk(context: DiskJobContext, run: TaskRun, name: string): DiskSteps<Disk> {
  return new DiskSteps(context, run, dynamicDisks, name, (tx) => tx.disks);
}
