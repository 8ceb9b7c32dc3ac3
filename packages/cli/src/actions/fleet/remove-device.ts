import { ActionCode } from "@diskmesh/api/registry";
import type { Action } from "../action.js";
import { repeatAction } from "../host-action.js";

export const removeDevice: Action = {
  usage: "remove-device <host-id> <device-id>",
  summary: "take a device out of operation: its disk moves to another device, and the device is erased and closed",
  options: [
    ["--wait", "wait until it is done"],
    ["--dry-run", "only show the effect"],
    ["--keep-data", "do not erase the device"],
  ],
  example: "diskmesh remove-device host-4 host-4-nvme-1 --wait",
  run: (call) =>
    repeatAction(call, [ActionCode.S_OK, ActionCode.S_ALREADY], (dryRun) => {
      const [hostId = "", deviceId = ""] = call.args;
      return call.mesh.registry.removeDevice({ hostId, deviceId, dryRun, keepData: call.options.keepData === true });
    }),
};
