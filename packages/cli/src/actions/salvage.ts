import { resolve } from "node:path";
import { statefulService } from "../mesh/stateful-service.js";
import type { Action } from "./action.js";
import { runServiceProgram, serviceConfigOption } from "./service-program.js";

export const salvage: Action = {
  usage: "salvage <service> <file>",
  summary: "write the intact part of a stopped service's damaged store to a backup, and list the rest",
  options: [
    ["--config <file>", "the service's config, whose tablet (a folder or a database) is read"],
    ["--with-gaps", "also write an incomplete state, from which documents are missing"],
  ],
  example: "diskmesh salvage registry salvaged.backup --config .diskmesh/config/disk-registry.yml",
  isOpenEnded: true,
  run: ({ output, args: [typed = "", file = ""], options }) => {
    const args = [
      "--config",
      serviceConfigOption(options),
      "--salvage",
      resolve(file),
      ...(options.withGaps ? ["--with-gaps"] : []),
    ];
    return runServiceProgram(output, statefulService(typed), "check-store", args);
  },
};
