import type { TaskServiceService } from "@diskmesh/api/director";
import type { Handler } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeTask } from "../wire.js";
import { parseTaskId } from "./parse.js";

export function getTask(context: Context): Handler<(typeof TaskServiceService)["getTask"]> {
  return async (request) => ({ task: encodeTask(await context.tasks.get(parseTaskId(request.taskId))) });
}
