import { ActionCode } from "@diskmesh/api/registry";
import type { Action } from "../../action.js";
import { repeatAction } from "../../host-action.js";

export const removeDevice: Action = {
  usage: "remove-device <host-id> <device-id>",
  summary: "take a device out of operation: no disk may lie there, it is erased and let go of",
  options: [
    ["--wait", "until it is done"],
    ["--dry-run", "only say what it would do"],
    ["--keep-data", "do not erase it"],
  ],
  example: "diskmesh remove-device host-4 host-4-nvme-1 --wait",
  run: (call) =>
    repeatAction(call, [ActionCode.S_OK, ActionCode.S_ALREADY], (dryRun) => {
      const [hostId = "", deviceId = ""] = call.args;
      return call.mesh.registry.removeDevice({ hostId, deviceId, dryRun, keepData: call.options.keepData === true });
    }),
};
