import type { Action } from "../action.js";
import { runServiceProgram, serviceConfigOption } from "../service-program.js";
import { statefulService } from "../stateful-service.js";

export const verify: Action = {
  usage: "verify <service>",
  summary: "check the store of a stopped service on this machine for damage; changes nothing",
  options: [["--config <file>", "the service's config, whose tablet (a folder or a database) is checked"]],
  example: "diskmesh verify registry --config .diskmesh/config/disk-registry.yml",
  isOpenEnded: true,
  run: ({ output, args: [typed = ""], options }) =>
    runServiceProgram(output, statefulService(typed), "check-store", ["--config", serviceConfigOption(options)]),
};
