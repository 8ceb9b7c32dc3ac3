import type { DynamicDisk } from "@diskmesh/api/director";
import { FencedError, UnavailableError } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import type { Task } from "../model/task.js";
import { encodeDisk } from "../wire.js";
import type { WantedTask } from "../workers/tasks.js";
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
  return wait ? recorded(task, context.tasks.whenEnded(task.taskId, call)) : task;
}

/** The task is there, whatever keeps its end from being seen: a caller that is told "not done" would start a second. */
async function recorded<Result>(task: Task, waiting: Promise<Result>): Promise<Result> {
  try {
    return await waiting;
  } catch (error) {
    if (!(error instanceof UnavailableError || error instanceof FencedError)) throw error;
    throw new UnavailableError(
      `task ${task.taskId} was started; what became of it cannot be seen here: ${error.message}`,
      {
        about: { task_id: String(task.taskId) },
        outcome: "unknown",
        cause: error,
      },
    );
  }
}

/** The disk as it is after a call of `startDiskTask` that returned `task`. */
export async function currentDisk(context: Context, diskName: string, task: Task): Promise<DynamicDisk | undefined> {
  const disk = await recorded(
    task,
    context.tablet.read((tables) => tables.disks.get(diskName)),
  );
  return disk && encodeDisk(disk);
}
