import type { TaskServiceService } from "@diskmesh/api/director";
import type { Handler } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeTask } from "../wire.js";
import { parseTaskId } from "./parse.js";

export function resumeTask(context: Context): Handler<(typeof TaskServiceService)["resumeTask"]> {
  return async (request) => ({ task: encodeTask(await context.tasks.resume(parseTaskId(request.taskId))) });
}
