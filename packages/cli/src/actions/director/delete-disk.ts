import { type Action, textOption } from "../action.js";
import { followTask } from "../task-run.js";

export const deleteDisk: Action = {
  usage: "delete-disk <disk-name>",
  summary: "delete a detached dynamic disk and its data",
  options: [
    ["--attachment <id>", "only if this is its last attachment"],
    ["--no-wait", "start the task and do not wait for it"],
  ],
  example: "diskmesh delete-disk scratch",
  run: async (call) => {
    const { args, mesh, options } = call;
    const attachmentId = textOption(options, "attachment");
    const { task } = await mesh.disks.deleteDisk({ diskName: args[0] ?? "", attachmentId, wait: false });
    await followTask(call, task);
  },
};
