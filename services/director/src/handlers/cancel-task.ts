import type { CancelTaskRequest, CancelTaskResponse } from "@diskmesh/api/director";
import { formatIdentity } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { TaskContext } from "../context.js";
import type { Deed } from "../model/director-event.js";
import { encodeTask } from "../wire.js";
import { askerOf } from "../workers/tasks.js";
import { parseTaskId } from "./parse.js";

/** What is done to a task, rather than by it. */
export function deedOnTask(action: string, taskId: number): Deed {
  return { action, objectType: "task", objectName: String(taskId) };
}

export async function cancelTask(
  context: TaskContext,
  request: CancelTaskRequest,
  call: CallContext,
): Promise<CancelTaskResponse> {
  const taskId = parseTaskId(request.taskId);
  const stop = { as: "cancelled", why: `cancelled by ${formatIdentity(call.identity)}` } as const;
  const task = await context.tasks.stop(taskId, stop, (tx, { deployment }) =>
    context.events.note(tx, deedOnTask("cancel", taskId), askerOf(call), { taskId, deployment }),
  );
  return { task: encodeTask(task) };
}
