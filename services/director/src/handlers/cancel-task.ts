import type { TaskServiceService } from "@diskmesh/api/director";
import { formatIdentity } from "@diskmesh/domain";
import type { Handler } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeTask } from "../wire.js";
import { parseTaskId } from "./parse.js";

export function cancelTask(context: Context): Handler<(typeof TaskServiceService)["cancelTask"]> {
  return async (request, call) => {
    const taskId = parseTaskId(request.taskId);
    const task = await context.tasks.stop(taskId, {
      as: "cancelled",
      why: `cancelled by ${formatIdentity(call.identity)}`,
    });
    return { task: encodeTask(task) };
  };
}
