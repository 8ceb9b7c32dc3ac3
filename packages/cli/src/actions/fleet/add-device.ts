import { ActionCode } from "@diskmesh/api/registry";
import type { Action } from "../action.js";
import { repeatAction } from "../host-action.js";

export const addDevice: Action = {
  usage: "add-device <host-id> <device-id>",
  summary: "take a device into operation, or accept other hardware in its place",
  options: [
    ["--wait", "wait until it is done"],
    ["--dry-run", "only show the effect"],
    [
      "--accept-unidentified",
      "accept a device without a serial number, which waits for confirm-device after each boot",
    ],
  ],
  example: "diskmesh add-device host-4 host-4-nvme-1 --wait",
  run: (call) =>
    repeatAction(call, [ActionCode.S_OK, ActionCode.S_ALREADY], (dryRun) => {
      const [hostId = "", deviceId = ""] = call.args;
      const acceptUnidentified = call.options.acceptUnidentified === true;
      return call.mesh.registry.addDevice({ hostId, deviceId, dryRun, acceptUnidentified });
    }),
};
