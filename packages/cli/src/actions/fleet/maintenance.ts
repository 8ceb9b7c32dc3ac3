import { HostState } from "@diskmesh/api/registry";
import { durationOf } from "@diskmesh/rpc";
import { UsageError } from "../../output/exit-codes.js";
import { secondsOf } from "../../output/values.js";
import { type Action, textOption } from "../action.js";

export const maintenance: Action = {
  usage: "maintenance <host-ids...>",
  summary:
    "announce work on hosts: nothing new is placed there, and silence does not fence their disks, until they are back or the time has passed",
  options: [
    ["--for <time>", "time after which silence counts again, such as 30m, at most 7d"],
    ["--reason <text>", "reason, shown with the hosts (maintenance)"],
    ["--dry-run", "only count the affected objects"],
  ],
  example: 'diskmesh maintenance host-3 --for 30m --reason "new memory"',
  run: async ({ mesh, output, args: hostIds, options }) => {
    const time = textOption(options, "for");
    if (time === "") throw new UsageError("--for is missing: give a time, for example 30m");
    const duration = durationOf(1_000 * secondsOf("--for", time));
    const answer = await mesh.registry.setHostState({
      hostIds: [...hostIds],
      state: HostState.MAINTENANCE,
      reason: textOption(options, "reason") || "maintenance",
      duration,
      dryRun: options.dryRun === true,
    });
    const { changedHostIds, publications, vms } = answer;
    const hosts = changedHostIds.join(" ");
    const what = `${options.dryRun ? "would begin" : "began"} maintenance of hosts ${hosts} for at most ${time}`;
    output.answer(
      answer,
      `${what}: ${publications} publications, ${vms} VMs; to end it: diskmesh set-host-state online ${hosts}`,
    );
  },
};
