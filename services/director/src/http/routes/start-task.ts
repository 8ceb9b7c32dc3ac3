import type { TaskMethod } from "../../tasks/task-method.js";
import { type Answer, toTask } from "../answer.js";
import type { Context } from "../context.js";
import type { HttpCall } from "../route.js";

/** Starts a task by its gRPC method and answers with a redirect to the task, without waiting for the task's end. */
export async function startTask<Request extends { wait: boolean }>(
  { context, call }: HttpCall,
  method: TaskMethod<Request, Context, { task?: { taskId: number } | undefined }>,
  request: NoInfer<Omit<Request, "wait">>,
): Promise<Answer> {
  const { task } = await method(context, { ...request, wait: false } as Request, call);
  return toTask(task?.taskId);
}
