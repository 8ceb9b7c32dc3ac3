import type { CancelTaskRequest, CancelTaskResponse } from "@diskmesh/api/director";
import { formatIdentity } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeTask } from "../wire.js";
import { parseTaskId } from "./parse.js";

export async function cancelTask(
  context: Context,
  request: CancelTaskRequest,
  call: CallContext,
): Promise<CancelTaskResponse> {
  const taskId = parseTaskId(request.taskId);
  const task = await context.tasks.stop(taskId, {
    as: "cancelled",
    why: `cancelled by ${formatIdentity(call.identity)}`,
  });
  return { task: encodeTask(task) };
}
