import { type Action, textOption } from "../../action.js";
import { followTask } from "../../task-run.js";

export const deleteDisk: Action = {
  usage: "delete-disk <disk-name>",
  summary: "delete a dynamic disk that is not attached, and what is on it",
  options: [
    ["--attachment <id>", "only if it has not been attached anew since this attachment"],
    ["--no-wait", "only start the task"],
  ],
  example: "diskmesh delete-disk scratch",
  run: async (call) => {
    const { args, mesh, options } = call;
    const attachmentId = textOption(options, "attachment");
    const { task } = await mesh.disks.deleteDisk({ diskName: args[0] ?? "", attachmentId, wait: false });
    await followTask(call, task);
  },
};
