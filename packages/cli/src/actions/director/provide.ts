import { type Action, textOption } from "../../action.js";
import { followTask } from "../../task-run.js";
import { sizeBytesOf } from "../../values.js";

export const provide: Action = {
  usage: "provide <disk-name> <instance-id>",
  summary: "give an instance a dynamic disk, which is created and attached if needed",
  options: [
    ["--size <size>", "size of a new disk, such as 10GiB"],
    ["--pool <name>", "disk type of a new disk, from the cloud config"],
    ["--no-wait", "start the task and do not wait for it"],
  ],
  example: "diskmesh provide scratch 5f3c6a1e-… --size 64MiB --pool default",
  run: async (call) => {
    const [diskName = "", instanceId = ""] = call.args;
    const sizeBytes = sizeBytesOf(textOption(call.options, "size") || "1GiB");
    const diskPoolName = textOption(call.options, "pool") || "default";
    const { task } = await call.mesh.disks.provideDisk({ diskName, instanceId, diskPoolName, sizeBytes, wait: false });
    await followTask(call, task);
  },
};
