import { sizeBytesOf } from "../../output/values.js";
import { type Action, textOption } from "../action.js";
import { getInstance } from "../instances.js";
import { followTask } from "../task-run.js";

export const provide: Action = {
  usage: "provide <disk-name> <instance>",
  summary: "give an instance, by its id or as DEPLOYMENT/GROUP/INDEX, a dynamic disk: created and attached if needed",
  options: [
    ["--size <size>", "size of a new disk, such as 10GiB"],
    ["--disk-type <name>", "disk type of a new disk, from the cloud config (default)"],
    ["--no-wait", "start the task and do not wait for it"],
  ],
  example: "diskmesh provide scratch demo/web/0 --size 64MiB --disk-type standard",
  run: async (call) => {
    const [diskName = "", instance = ""] = call.args;
    const instanceId = instance.includes("/") ? (await getInstance(call.mesh, instance)).instanceId : instance;
    const sizeBytes = sizeBytesOf(textOption(call.options, "size") || "1GiB");
    const diskPoolName = textOption(call.options, "diskType") || "default";
    const { task } = await call.mesh.disks.provideDisk({ diskName, instanceId, diskPoolName, sizeBytes, wait: false });
    await followTask(call, task);
  },
};
