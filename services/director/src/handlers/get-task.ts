import type { GetTaskRequest, GetTaskResponse } from "@diskmesh/api/director";
import type { TaskContext } from "../context.js";
import { encodeTask } from "../wire.js";
import { parseTaskId } from "./parse.js";

export async function getTask(context: TaskContext, request: GetTaskRequest): Promise<GetTaskResponse> {
  return { task: encodeTask(await context.tasks.get(parseTaskId(request.taskId))) };
}
