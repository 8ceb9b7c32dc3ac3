import { HostState } from "@diskmesh/api/registry";
import { UsageError } from "../../output/exit-codes.js";
import { named } from "../../output/values.js";
import { type Action, textOption } from "../action.js";

const { DEAD, CORDONED, ONLINE } = HostState;

export const setHostState: Action = {
  usage: "set-host-state <state> <host-ids...>",
  summary:
    "mark hosts as dead, keep new disks and VMs off them (cordoned), or revoke both and end their maintenance (online); their disks stay published to them",
  options: [
    ["--reason <text>", "reason, shown with the hosts"],
    ["--fence", "also fence their publications that are set to be fenced when the host is silent"],
    ["--dry-run", "only count the affected objects"],
  ],
  example: 'diskmesh set-host-state dead host-1 host-2 --reason "no power" --dry-run',
  run: async ({ mesh, output, args: [state = "", ...hostIds], options }) => {
    const wanted = named("state", { DEAD, CORDONED, ONLINE }, state);
    const reason = textOption(options, "reason");
    if (wanted !== ONLINE && reason === "") throw new UsageError("--reason is missing: say why, for others to read");
    const answer = await mesh.registry.setHostState({
      hostIds,
      state: wanted,
      reason,
      dryRun: options.dryRun === true,
      fence: options.fence === true,
    });
    const { changedHostIds, devices, disksOnDevices, publications, vms, fences } = answer;
    const would = options.dryRun ? "would change" : "changed";
    output.answer(
      answer,
      `${would} hosts ${changedHostIds.join(" ") || "none"}: ${devices} devices, ${disksOnDevices} disks on them, ${publications} publications, ${vms} VMs, ${fences} fences`,
    );
  },
};
