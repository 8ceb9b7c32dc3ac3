import { resolve } from "node:path";
import { statefulService } from "../mesh/stateful-service.js";
import type { Action } from "./action.js";
import { requireReadable, runServiceProgram, serviceConfigOption } from "./service-program.js";

export const restore: Action = {
  usage: "restore <service> <file>",
  summary: "restore a backup into the tablet of a stopped service on this machine",
  options: [
    ["--config <file>", "the service's config, whose tablet (a folder or a database) is restored"],
    ["--replace", "replace the tablet, whose folder is kept under another name, or the data of the database"],
    ["--discard-most", "with --replace: even if the backup lacks most documents of the tablet"],
  ],
  example: "diskmesh restore registry registry.backup --config .diskmesh/config/disk-registry.yml",
  isOpenEnded: true,
  run: async ({ output, args: [typed = "", file = ""], options }) => {
    const service = statefulService(typed);
    const config = serviceConfigOption(options);
    requireReadable("backup", resolve(file));
    const args = ["--config", config, "--from", resolve(file), ...(options.replace ? ["--replace"] : [])];
    if (options.discardMost) args.push("--discard-most");
    await runServiceProgram(output, service, "restore", args);
  },
};
