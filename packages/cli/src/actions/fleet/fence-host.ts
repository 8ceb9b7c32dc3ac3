import type { FencedDisk } from "@diskmesh/api/registry";
import { EndedWith, EXIT_CODES } from "../../output/exit-codes.js";
import type { Columns } from "../../output/output.js";
import { type Action, textOption } from "../action.js";

const COLUMNS: Columns<FencedDisk> = {
  disk: ({ diskId }) => diskId,
  fenced: ({ complete }) => (complete ? "yes" : "not yet"),
  "not asked": ({ unaskedDevices }) => unaskedDevices.map(({ deviceId }) => deviceId).join(" "),
};

export const fenceHost: Action = {
  usage: "fence-host <host-id>",
  summary: "take all disks from a host, so that other hosts can use them",
  options: [
    ["--reason <text>", "reason, shown with the disks"],
    ["--dry-run", "only list the disks"],
  ],
  example: 'diskmesh fence-host host-1 --reason "no power"',
  run: async ({ mesh, output, args: [hostId = ""], options }) => {
    const dryRun = options.dryRun === true;
    const { disks } = await mesh.registry.fenceHost({ hostId, reason: textOption(options, "reason"), dryRun });
    output.list(COLUMNS, disks, `${hostId} holds no disk`);
    if (!dryRun && disks.some(({ complete }) => !complete)) throw new EndedWith(EXIT_CODES.notYet);
  },
};
