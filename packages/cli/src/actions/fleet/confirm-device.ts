import { ActionCode } from "@diskmesh/api/registry";
import type { Action } from "../action.js";
import { repeatAction } from "../host-action.js";

export const confirmDevice: Action = {
  usage: "confirm-device <host-id> <device-id>",
  summary: "confirm that an unidentified drive in a device's place is that device",
  options: [["--dry-run", "only show the effect"]],
  example: "diskmesh confirm-device host-4 host-4-sdb --dry-run",
  run: (call) =>
    repeatAction(call, [ActionCode.S_OK, ActionCode.S_ALREADY], (dryRun) => {
      const [hostId = "", deviceId = ""] = call.args;
      return call.mesh.registry.confirmDevice({ hostId, deviceId, dryRun });
    }),
};
