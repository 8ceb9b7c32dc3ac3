import { statefulService } from "../mesh/stateful-service.js";
import type { Action } from "./action.js";
import { runServiceProgram, serviceConfigOption } from "./service-program.js";

export const init: Action = {
  usage: "init <service>",
  summary: "make the empty tablet of a new installation; changes nothing when there is one",
  options: [["--config <file>", "the service's config, whose tablet (in a folder or a database) is made"]],
  example: "diskmesh init registry --config .diskmesh/config/disk-registry.yml",
  isOpenEnded: true,
  run: ({ output, args: [typed = ""], options }) =>
    runServiceProgram(output, statefulService(typed), "init", ["--config", serviceConfigOption(options)]),
};
