import { cidOfDisk } from "../../mesh/disk-names.js";
import { showMoves } from "../../output/move-output.js";
import type { Action } from "../action.js";

export const cancelMove: Action = {
  usage: "cancel-move <disk>",
  summary: "cancel the moves of a disk before their cut-over",
  example: "diskmesh cancel-move scratch",
  run: async ({ mesh, output, args: [disk = ""] }) => {
    const moved = await mesh.registry.cancelMove({ diskId: await cidOfDisk(mesh, disk) });
    showMoves(output, moved.disk);
  },
};
