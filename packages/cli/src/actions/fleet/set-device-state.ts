import { Health } from "@diskmesh/api/registry";
import { UsageError } from "../../output/exit-codes.js";
import { deviceHealth } from "../../output/values.js";
import { type Action, textOption } from "../action.js";

export const setDeviceState: Action = {
  usage: "set-device-state <health> <device-ids...>",
  summary: "mark devices as error or warning, or trust repaired devices again (online)",
  options: [["--reason <text>", "reason, shown with the devices"]],
  example: 'diskmesh set-device-state warning host-1-device-4 --reason "it rattles"',
  run: async ({ mesh, output, args: [health = "", ...deviceIds], options }) => {
    const wanted = { deviceIds, health: deviceHealth(health), reason: textOption(options, "reason") };
    if (wanted.health !== Health.ONLINE && wanted.reason === "")
      throw new UsageError("--reason is missing: say why, for others to read");
    const answer = await mesh.registry.setDeviceState(wanted);
    output.answer(answer, `changed: ${answer.changedDeviceIds.join(" ") || "none"}`);
  },
};
