import { cidOfDisk } from "../../mesh/disk-names.js";
import { showMoves } from "../../output/move-output.js";
import type { Action } from "../action.js";

export const replaceDevice: Action = {
  usage: "replace-device <disk> <device-id>",
  summary: "move a disk away from one of its devices, also while it is in use",
  example: "diskmesh replace-device scratch host-4-nvme-1",
  run: async ({ mesh, output, args: [disk = "", deviceId = ""] }) => {
    const moved = await mesh.registry.replaceDevice({ diskId: await cidOfDisk(mesh, disk), deviceId });
    showMoves(output, moved.disk);
  },
};
