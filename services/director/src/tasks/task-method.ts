import type { Task } from "@diskmesh/api/director";
import type { CallContext } from "@diskmesh/rpc";
import type { TaskQueue } from "../store/task.js";
import type { TaskContext } from "./context.js";
import type { WantedTask } from "./tasks.js";
import { encodeTask } from "./wire.js";

/** Parses a request into the task to start; throws to refuse the request. */
type Row<Request, Context> = (
  request: Request,
  context: Context,
  call: CallContext,
) => Omit<WantedTask, "queue"> | Promise<Omit<WantedTask, "queue">>;

/** Handles a method that starts a task. */
export type TaskMethod<Request, Context = TaskContext, Response = { task: Task }> = (
  context: Context,
  request: Request,
  call: CallContext,
) => Promise<Response>;

/**
 * Returns the handler of a method that starts a task in `queue`. The handler waits for the task's end when the request
 * sets `wait`.
 */
export function taskMethod<Request extends { wait: boolean }, Context extends TaskContext = TaskContext>(
  queue: TaskQueue,
  row: Row<Request, Context>,
): TaskMethod<Request, Context> {
  return async (context, request, call) => {
    const task = await context.tasks.start(call, { queue, ...(await row(request, context, call)) });
    return { task: encodeTask(request.wait ? await context.tasks.whenEnded(task.taskId, call) : task) };
  };
}
