import type { Action } from "../../action.js";
import { showMoves } from "../../move-output.js";

export const cancelMove: Action = {
  usage: "cancel-move <disk-id>",
  summary: "leave a disk where it is: end its moves that are not cut over",
  example: "diskmesh cancel-move walk",
  run: async ({ mesh, output, args: [diskId = ""] }) => {
    const { disk } = await mesh.registry.cancelMove({ diskId });
    showMoves(output, disk);
  },
};
