import { short } from "../../output/output.js";
import { taskIdOf } from "../../output/values.js";
import type { Action } from "../action.js";

export const resume: Action = {
  usage: "resume <task-id>",
  summary: "run a task that was held after a restore",
  example: "diskmesh resume 17",
  run: async ({ mesh, output, args: [taskId = ""] }) => {
    const { task } = await mesh.tasks.resumeTask({ taskId: taskIdOf(taskId) });
    if (task === undefined) throw new TypeError("the answer has no task");
    output.answer(task, short(task.state));
  },
};
