import type { Task } from "@diskmesh/api/director";
import type { CallContext } from "@diskmesh/rpc";
import type { TaskQueue } from "../store/task.js";
import type { TaskContext } from "./context.js";
import type { WantedTask } from "./tasks.js";
import { encodeTask } from "./wire.js";

/** Parses a request into the task that it asks for; throws to refuse it. */
type Row<Request, Context> = (
  request: Request,
  context: Context,
  call: CallContext,
) => Omit<WantedTask, "queue"> | Promise<Omit<WantedTask, "queue">>;

/** Serves a method that starts a task. */
export type TaskMethod<Request, Context = TaskContext, Response = { task: Task }> = (
  context: Context,
  request: Request,
  call: CallContext,
) => Promise<Response>;

/** Returns what serves a method by a task of that queue; it waits for the task's end when the request asks for that. */
export function taskMethod<Request extends { wait: boolean }, Context extends TaskContext = TaskContext>(
  queue: TaskQueue,
  row: Row<Request, Context>,
): TaskMethod<Request, Context> {
  return async (context, request, call) => {
    const task = await context.tasks.start(call, { queue, ...(await row(request, context, call)) });
    return { task: encodeTask(request.wait ? await context.tasks.whenEnded(task.taskId, call) : task) };
  };
}
