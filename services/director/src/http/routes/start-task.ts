import type { TaskMethod } from "../../tasks/task-method.js";
import { type Answer, toTask } from "../answer.js";
import type { Context } from "../context.js";
import type { HttpCall } from "../route.js";

/** Starts a task as the gRPC method does and answers where to look for it, without waiting for its end. */
export async function startTask<Request extends { wait: boolean }>(
  { context, call }: HttpCall,
  method: TaskMethod<Request, Context, { task?: { taskId: number } | undefined }>,
  request: NoInfer<Omit<Request, "wait">>,
): Promise<Answer> {
  const { task } = await method(context, { ...request, wait: false } as Request, call);
  return toTask(task?.taskId);
}
