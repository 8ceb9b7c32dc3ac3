import type { Action } from "../../action.js";
import { showMoves } from "../../move-output.js";

export const replaceDevice: Action = {
  usage: "replace-device <disk-id> <device-id>",
  summary: "move a disk away from one of its devices, also while it is in use",
  example: "diskmesh replace-device walk host-4-nvme-1",
  run: async ({ mesh, output, args: [diskId = "", deviceId = ""] }) => {
    const { disk } = await mesh.registry.replaceDevice({ diskId, deviceId });
    showMoves(output, disk);
  },
};
