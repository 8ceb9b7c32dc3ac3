import { resolve } from "node:path";
import type { Action } from "../action.js";
import { requireReadable, runServiceProgram, serviceConfigOption } from "../service-program.js";
import { statefulService } from "../stateful-service.js";

export const restore: Action = {
  usage: "restore <service> <file>",
  summary: "a backup, into the tablet of a service of this machine that does not run",
  options: [
    ["--config <file>", "the service's own config: its tablet, a folder or a database, is what is restored"],
    ["--replace", "first give the folder another name, or replace what the database holds"],
  ],
  example: "diskmesh restore registry registry.backup --config .diskmesh/config/disk-registry.yml",
  isOpenEnded: true,
  run: async ({ output, args: [typed = "", file = ""], options }) => {
    const service = statefulService(typed);
    const config = serviceConfigOption(options);
    requireReadable("backup", resolve(file));
    const args = ["--config", config, "--from", resolve(file), ...(options.replace ? ["--replace"] : [])];
    await runServiceProgram(output, service, "restore", args);
  },
};
