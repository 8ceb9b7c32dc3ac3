import type { Task } from "@diskmesh/api/director";
import type { TestDirector } from "@diskmesh/director/testing";

/** Longer than any unary call may take; streams have no maximum deadline. */
const DEADLINE = { deadlineMs: 1_800_000 };

/** Follows a started task, and returns it once it has ended. */
export async function endedTask(director: TestDirector, started: { readonly task?: Task | undefined }): Promise<Task> {
  const taskId = started.task?.taskId ?? 0;
  for await (const { update } of director.tasks.watchTask({ taskId }, DEADLINE)) if (update?.$case === "ended") break;
  return director.task(taskId);
}
