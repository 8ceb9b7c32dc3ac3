import type { ResumeTaskRequest, ResumeTaskResponse } from "@diskmesh/api/director";
import type { CallContext } from "@diskmesh/rpc";
import type { TaskContext } from "../context.js";
import { encodeTask } from "../wire.js";
import { askerOf } from "../workers/tasks.js";
import { deedOnTask } from "./cancel-task.js";
import { parseTaskId } from "./parse.js";

export async function resumeTask(
  { tasks, events }: TaskContext,
  request: ResumeTaskRequest,
  call: CallContext,
): Promise<ResumeTaskResponse> {
  const taskId = parseTaskId(request.taskId);
  const task = await tasks.resume(taskId, (tx, { deployment }) =>
    events.note(tx, deedOnTask("resume", taskId), askerOf(call), { taskId, deployment }),
  );
  return { task: encodeTask(task) };
}
