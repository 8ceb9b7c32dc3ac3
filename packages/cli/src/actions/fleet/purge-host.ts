import { ActionCode } from "@diskmesh/api/registry";
import type { Action } from "../action.js";
import { repeatAction } from "../host-action.js";

export const purgeHost: Action = {
  usage: "purge-host <host-id>",
  summary:
    "forget a host that has no disks and is no VM, with its devices; while its agent runs, it registers the host again",
  options: [
    ["--force", "even if the host is a VM, or has disks on its devices, which are lost"],
    ["--dry-run", "only show the effect"],
  ],
  example: "diskmesh purge-host host-4 --dry-run",
  run: (call) =>
    repeatAction(call, [ActionCode.S_OK, ActionCode.S_ALREADY], (dryRun) =>
      call.mesh.registry.purgeHost({ hostId: call.args[0] ?? "", dryRun, force: call.options.force === true }),
    ),
};
