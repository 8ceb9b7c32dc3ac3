import { type Action, textOption } from "../../action.js";
import { followTask } from "../../task-run.js";
import { sizeBytesOf } from "../../values.js";

export const provide: Action = {
  usage: "provide <disk-name> <instance-id>",
  summary: "give an instance a dynamic disk: made where there is none, attached where it is not",
  options: [
    ["--size <size>", "of a disk that is made, such as 10GiB"],
    ["--pool <name>", "the disk type of the cloud config"],
    ["--no-wait", "only start the task"],
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
