import { cidOfDisk } from "../../mesh/disk-names.js";
import { showMoves } from "../../output/move-output.js";
import type { Action } from "../action.js";

export const migrateDisk: Action = {
  usage: "migrate-disk <disk> [<host-id>]",
  summary: "move a disk to devices of the host, or of any other host, also while it is in use",
  example: "diskmesh migrate-disk scratch host-1",
  run: async ({ mesh, output, args: [disk = "", hostId = ""] }) => {
    const moved = await mesh.registry.migrateDisk({ diskId: await cidOfDisk(mesh, disk), hostId });
    showMoves(output, moved.disk);
  },
};
