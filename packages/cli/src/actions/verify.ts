import type { Action } from "../action.js";
import { runServiceProgram, serviceConfigOption } from "../service-program.js";
import { statefulService } from "../stateful-service.js";

export const verify: Action = {
  usage: "verify <service>",
  summary: "the store of a service of this machine that does not run: whole, or what is damaged; changes nothing",
  options: [["--config <file>", "the service's own config: its tablet, a folder or a database, is what is checked"]],
  example: "diskmesh verify registry --config .diskmesh/config/disk-registry.yml",
  isOpenEnded: true,
  run: ({ output, args: [typed = ""], options }) =>
    runServiceProgram(output, statefulService(typed), "check-store", ["--config", serviceConfigOption(options)]),
};
