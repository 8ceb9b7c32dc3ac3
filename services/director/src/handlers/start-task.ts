import type { DynamicDisk } from "@diskmesh/api/director";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import type { Task } from "../model/task.js";
import { encodeDisk } from "../wire.js";
import { ofStarted, type WantedTask } from "../workers/tasks.js";
import { refuseUnlessEnabled } from "./parse.js";

/** Starts a task on a disk; waits for its end when asked to. */
export async function startDiskTask(
  context: Context,
  call: CallContext,
  wait: boolean,
  wanted: Omit<WantedTask, "queue">,
): Promise<Task> {
  refuseUnlessEnabled(context);
  return startTask(context, call, wait, { ...wanted, queue: "dynamic_disks" });
}

export async function startTask(context: Context, call: CallContext, wait: boolean, wanted: WantedTask): Promise<Task> {
  const task = await context.tasks.start(call, wanted);
  return wait ? context.tasks.whenEnded(task.taskId, call) : task;
}

/** The disk as it is after a call of `startDiskTask` that returned `task`. */
export async function currentDisk(context: Context, diskName: string, task: Task): Promise<DynamicDisk | undefined> {
  const disk = await ofStarted(
    task.taskId,
    context.tablet.read((tables) => tables.disks.get(diskName)),
  );
  return disk && encodeDisk(disk);
}
