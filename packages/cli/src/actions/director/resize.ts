import { sizeBytesOf } from "../../output/values.js";
import type { Action } from "../action.js";
import { followTask } from "../task-run.js";

export const resize: Action = {
  usage: "resize <disk-name> <size>",
  summary: "enlarge a dynamic disk; one that its host serves as a block device has to be detached meanwhile",
  options: [["--no-wait", "start the task and do not wait for it"]],
  example: "diskmesh resize scratch 20GiB",
  run: async (call) => {
    const [diskName = "", size = ""] = call.args;
    const { task } = await call.mesh.disks.resizeDisk({ diskName, sizeBytes: sizeBytesOf(size), wait: false });
    await followTask(call, task);
  },
};
