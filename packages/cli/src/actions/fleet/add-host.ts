import { ActionCode } from "@diskmesh/api/registry";
import type { Action } from "../action.js";
import { repeatAction } from "../host-action.js";

export const addHost: Action = {
  usage: "add-host <host-id>",
  summary: "take a host, whose agent has registered, and its devices into operation",
  options: [
    ["--wait", "wait until it is done"],
    ["--dry-run", "only show the effect"],
  ],
  example: "diskmesh add-host host-4 --wait",
  run: (call) =>
    repeatAction(call, [ActionCode.S_OK, ActionCode.S_ALREADY], (dryRun) =>
      call.mesh.registry.addHost({ hostId: call.args[0] ?? "", dryRun }),
    ),
};
