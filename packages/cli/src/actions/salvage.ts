import { resolve } from "node:path";
import type { Action } from "../action.js";
import { runServiceProgram, serviceConfigOption } from "../service-program.js";
import { statefulService } from "../stateful-service.js";

export const salvage: Action = {
  usage: "salvage <service> <file>",
  summary:
    "what can be trusted of the damaged store of a service that does not run, into a backup; names what it leaves out",
  options: [["--config <file>", "the service's own config: its tablet, a folder or a database, is what is read"]],
  example: "diskmesh salvage registry salvaged.backup --config .diskmesh/config/disk-registry.yml",
  isOpenEnded: true,
  run: ({ output, args: [typed = "", file = ""], options }) => {
    const args = ["--config", serviceConfigOption(options), "--salvage", resolve(file)];
    return runServiceProgram(output, statefulService(typed), "check-store", args);
  },
};
