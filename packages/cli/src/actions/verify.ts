import { resolve } from "node:path";
import { statefulService } from "../mesh/stateful-service.js";
import type { Action } from "./action.js";
import { runServiceProgram, serviceConfigOption } from "./service-program.js";

export const verify: Action = {
  usage: "verify <service>",
  summary:
    "check the store of a stopped service, or a backup, for damage, and print the checksum of its documents; changes nothing",
  options: [
    ["--config <file>", "the service's config, whose tablet (a folder or a database) is checked"],
    ["--backup <file>", "check this backup of the service instead"],
  ],
  example: "diskmesh verify registry --config .diskmesh/config/disk-registry.yml",
  isOpenEnded: true,
  run: ({ output, args: [typed = ""], options }) => {
    const backup = options.backup === undefined ? [] : ["--backup", resolve(String(options.backup))];
    const args = ["--config", serviceConfigOption(options), ...backup];
    return runServiceProgram(output, statefulService(typed), "check-store", args);
  },
};
