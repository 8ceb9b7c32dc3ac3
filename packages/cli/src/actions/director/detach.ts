import { type Action, textOption } from "../../action.js";
import { followTask } from "../../task-run.js";

export const detach: Action = {
  usage: "detach <disk-name>",
  summary: "take a dynamic disk from the instance that has it; it is kept",
  options: [
    ["--attachment <id>", "only if this attachment is still the present one"],
    ["--no-wait", "only start the task"],
  ],
  example: "diskmesh detach scratch",
  run: async (call) => {
    const [diskName = ""] = call.args;
    const attachmentId = textOption(call.options, "attachment");
    const { task } = await call.mesh.disks.detachDisk({ diskName, attachmentId, wait: false });
    await followTask(call, task);
  },
};
