import type { Action } from "../../action.js";
import { showMoves } from "../../move-output.js";

export const migrateDisk: Action = {
  usage: "migrate-disk <disk-id> [<host-id>]",
  summary: "move a disk to devices of the host, or of any other host, also while it is in use",
  example: "diskmesh migrate-disk walk host-1",
  run: async ({ mesh, output, args: [diskId = "", hostId = ""] }) => {
    const { disk } = await mesh.registry.migrateDisk({ diskId, hostId });
    showMoves(output, disk);
  },
};
