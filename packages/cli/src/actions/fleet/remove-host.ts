import { ActionCode } from "@diskmesh/api/registry";
import type { Action } from "../action.js";
import { repeatAction } from "../host-action.js";

export const removeHost: Action = {
  usage: "remove-host <host-id>",
  summary: "take a host out of operation: its disks move to other hosts, and its devices are erased and closed",
  options: [
    ["--wait", "wait until it is done"],
    ["--dry-run", "only show the effect"],
    ["--keep-data", "do not erase its devices"],
  ],
  example: "diskmesh remove-host host-3 --wait",
  run: (call) =>
    repeatAction(call, [ActionCode.S_OK, ActionCode.S_ALREADY], (dryRun) =>
      call.mesh.registry.removeHost({ hostId: call.args[0] ?? "", dryRun, keepData: call.options.keepData === true }),
    ),
};
