import { ActionCode } from "@diskmesh/api/registry";
import type { Action } from "../../action.js";
import { repeatAction } from "../../host-action.js";

export const purgeHost: Action = {
  usage: "purge-host <host-id>",
  summary: "forget a host that is out of operation, with its devices",
  options: [
    ["--force", "also with disks on its devices, which are lost with it, and although it is a VM"],
    ["--dry-run", "only say what it would do"],
  ],
  example: "diskmesh purge-host host-4 --dry-run",
  run: (call) =>
    repeatAction(call, [ActionCode.S_OK, ActionCode.S_ALREADY], (dryRun) =>
      call.mesh.registry.purgeHost({ hostId: call.args[0] ?? "", dryRun, force: call.options.force === true }),
    ),
};
