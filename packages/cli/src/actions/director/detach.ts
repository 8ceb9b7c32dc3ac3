import { type Action, textOption } from "../action.js";
import { followTask } from "../task-run.js";

export const detach: Action = {
  usage: "detach <disk-name>",
  summary: "detach a dynamic disk from its instance; the disk is kept",
  options: [
    ["--attachment <id>", "only if this is its present attachment"],
    ["--no-wait", "start the task and do not wait for it"],
  ],
  example: "diskmesh detach scratch",
  run: async (call) => {
    const [diskName = ""] = call.args;
    const attachmentId = textOption(call.options, "attachment");
    const { task } = await call.mesh.disks.detachDisk({ diskName, attachmentId, wait: false });
    await followTask(call, task);
  },
};
