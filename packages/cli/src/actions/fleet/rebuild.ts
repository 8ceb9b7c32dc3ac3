import { resolve } from "node:path";
import { UsageError } from "../../output/exit-codes.js";
import { type Action, textOption } from "../action.js";
import { requireReadable, runServiceProgram, serviceConfigOption } from "../service-program.js";

export const rebuild: Action = {
  usage: "rebuild",
  summary: "rebuild the registry from its agents, when its tablet and its backups are lost",
  options: [
    ["--from-agents <file>", 'file with a line "HOST-ID ADDRESS:PORT" for each agent of the fleet'],
    ["--config <file>", "the registry's config, whose tablet is made, and whose certificate calls the agents"],
    ["--fleet <id>", "id of the fleet; needed with --yes"],
    ["--yes", "make the registry; without it only the plan is printed"],
    ["--replace", "replace the tablet of an interrupted rebuild, whose folder is kept under another name"],
  ],
  example: "diskmesh rebuild --from-agents agents.txt --config .diskmesh/config/disk-registry.yml",
  isOpenEnded: true,
  run: async ({ output, options }) => {
    const agents = textOption(options, "fromAgents");
    if (agents === "") throw new UsageError("--from-agents is missing: give the file that lists the agents");
    requireReadable("list of agents", resolve(agents));
    const args = ["--config", serviceConfigOption(options), "--from-agents", resolve(agents)];
    const fleet = textOption(options, "fleet");
    if (fleet !== "") args.push("--fleet", fleet);
    if (options.yes) args.push("--yes");
    if (options.replace) args.push("--replace");
    await runServiceProgram(output, "disk-registry", "rebuild", args);
  },
};
