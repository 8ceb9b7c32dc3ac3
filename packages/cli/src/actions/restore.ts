import { spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants, existsSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { messageOf } from "@diskmesh/domain";
import { type Action, textOption } from "../action.js";
import { EndedWith, EXIT_CODES, UsageError } from "../exit-codes.js";
import { statefulService } from "../stateful-service.js";

/** Where a service's own program is, seen from here: in a release, and in the repository. */
const PLACES = [
  (service: string) => `../${service}/restore.js`,
  (service: string) => `../../../../services/${service}/dist/restore.js`,
];

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
    const config = textOption(options, "config");
    if (config === "") throw new UsageError("--config is needed: the service's own, whose tablet says where to");
    requireReadable("config", resolve(config));
    requireReadable("backup", resolve(file));
    // Only the service's own program knows what its documents are.
    const program = PLACES.map((place) => fileURLToPath(new URL(place(service), import.meta.url))).find(existsSync);
    if (program === undefined)
      throw new UsageError(`there is no ${service} beside this command: restore where the service is installed`);
    const restoreArgs = [
      "--config",
      resolve(config),
      "--from",
      resolve(file),
      ...(options.replace ? ["--replace"] : []),
    ];
    const child = spawn(process.execPath, [program, ...restoreArgs], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    child.stdout.setEncoding("utf8").on("data", (text: string) => output.text(text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => output.say(text));
    const [code] = (await once(child, "close")) as [number | null];
    if (code !== 0) throw new EndedWith(EXIT_CODES.failed);
  },
};

function requireReadable(what: string, file: string): void {
  try {
    accessSync(file, constants.R_OK);
  } catch (error) {
    throw new UsageError(`cannot read the ${what}: ${messageOf(error)}`);
  }
}
