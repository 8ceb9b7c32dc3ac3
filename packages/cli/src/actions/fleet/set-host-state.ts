import { HostState } from "@diskmesh/api/registry";
import { type Action, textOption } from "../../action.js";
import { UsageError } from "../../exit-codes.js";
import { hostState } from "../../values.js";

export const setHostState: Action = {
  usage: "set-host-state <state> <host-ids...>",
  summary: "say that hosts are dead, or (online) take that back; it is no grant: what they serve stays theirs",
  options: [
    ["--reason <text>", "why; it is shown with the hosts"],
    ["--fence", "fence those publications that are to be fenced when their host is silent"],
    ["--dry-run", "only count what it would touch"],
  ],
  example: 'diskmesh set-host-state dead host-1 host-2 --reason "no power" --dry-run',
  run: async ({ mesh, output, args: [state = "", ...hostIds], options }) => {
    const wanted = hostState(state);
    if (wanted !== HostState.DEAD && wanted !== HostState.ONLINE)
      throw new UsageError("a person's word is `dead` or `online`; all else the registry finds out by itself");
    const answer = await mesh.registry.setHostState({
      hostIds,
      state: wanted,
      reason: textOption(options, "reason"),
      dryRun: options.dryRun === true,
      fence: options.fence === true,
    });
    const { changedHostIds, devices, disksOnDevices, publications, vms, fences } = answer;
    const would = options.dryRun ? "would change" : "changed";
    output.answer(
      answer,
      `${would} ${changedHostIds.length} hosts (${changedHostIds.join(" ")}): ${devices} devices, ${disksOnDevices} disks on them, ${publications} publications, ${vms} VMs, ${fences} fences`,
    );
  },
};
