import { short } from "../../output/output.js";
import { taskIdOf } from "../../output/values.js";
import type { Action } from "../action.js";

export const cancel: Action = {
  usage: "cancel <task-id>",
  summary: "cancel a task, which ends at its next safe point",
  example: "diskmesh cancel 17",
  run: async ({ mesh, output, args: [taskId = ""] }) => {
    const { task } = await mesh.tasks.cancelTask({ taskId: taskIdOf(taskId) });
    if (task === undefined) throw new TypeError("the answer has no task");
    output.answer(task, short(task.state));
  },
};
