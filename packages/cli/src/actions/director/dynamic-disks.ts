import { sizeBytesOf } from "../../output/values.js";
import { textOption } from "../action.js";
import { getInstance } from "../instances.js";
import { taskAction } from "../task-run.js";

export const provide = taskAction({
  usage: "provide <disk-name> <instance>",
  summary: "give an instance, by its id or as DEPLOYMENT/GROUP/INDEX, a dynamic disk: created and attached if needed",
  options: [
    ["--size <size>", "size of a new disk, such as 10GiB"],
    ["--disk-type <name>", "disk type of a new disk, from the cloud config (default)"],
  ],
  example: "diskmesh provide scratch demo/web/0 --size 64MiB --disk-type standard",
  start: async ({ mesh, options, args: [diskName = "", instance = ""] }) => {
    const instanceId = instance.includes("/") ? (await getInstance(mesh, instance)).instanceId : instance;
    const sizeBytes = sizeBytesOf(textOption(options, "size") || "1GiB");
    const diskPoolName = textOption(options, "diskType") || "default";
    return mesh.disks.provideDisk({ diskName, instanceId, diskPoolName, sizeBytes, wait: false });
  },
});

export const resize = taskAction({
  usage: "resize <disk-name> <size>",
  summary: "enlarge a dynamic disk; one that its host serves as a block device has to be detached meanwhile",
  example: "diskmesh resize scratch 20GiB",
  start: async ({ mesh, args: [diskName = "", size = ""] }) =>
    mesh.disks.resizeDisk({ diskName, sizeBytes: sizeBytesOf(size), wait: false }),
});

export const detach = taskAction({
  usage: "detach <disk-name>",
  summary: "detach a dynamic disk from its instance; the disk is kept",
  options: [["--attachment <id>", "only if this is its present attachment"]],
  example: "diskmesh detach scratch",
  start: ({ mesh, options, args: [diskName = ""] }) =>
    mesh.disks.detachDisk({ diskName, attachmentId: textOption(options, "attachment"), wait: false }),
});

export const deleteDisk = taskAction({
  usage: "delete-disk <disk-name>",
  summary: "delete a detached dynamic disk and its data",
  options: [["--attachment <id>", "only if this is its last attachment"]],
  example: "diskmesh delete-disk scratch",
  start: ({ mesh, options, args: [diskName = ""] }) =>
    mesh.disks.deleteDisk({ diskName, attachmentId: textOption(options, "attachment"), wait: false }),
});
