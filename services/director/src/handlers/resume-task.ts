import type { ResumeTaskRequest, ResumeTaskResponse } from "@diskmesh/api/director";
import type { Context } from "../context.js";
import { encodeTask } from "../wire.js";
import { parseTaskId } from "./parse.js";

export async function resumeTask(context: Context, request: ResumeTaskRequest): Promise<ResumeTaskResponse> {
  return { task: encodeTask(await context.tasks.resume(parseTaskId(request.taskId))) };
}
