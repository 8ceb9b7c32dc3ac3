import { spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants, existsSync } from "node:fs";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { messageOf } from "@diskmesh/domain";
import { EndedWith, EXIT_CODES, UsageError } from "../output/exit-codes.js";
import type { Output } from "../output/output.js";
import { type Options, textOption } from "./action.js";

/** Paths of a service's program relative to this package: in a release, and in the repository. */
const PLACES = [
  (service: string, program: string) => `../${service}/${program}.js`,
  (service: string, program: string) => `../../../../services/${service}/dist/${program}.js`,
];

/** Returns the path of the service's config. Throws UsageError when the option is missing or the file is unreadable. */
export function serviceConfigOption(options: Options): string {
  const config = textOption(options, "config");
  if (config === "") throw new UsageError("--config is missing: give the service's config, which names its tablet");
  requireReadable("config", resolve(config));
  return resolve(config);
}

/**
 * Runs a program that is installed with a service, such as restore, which needs the schema of the service's tablet.
 */
export async function runServiceProgram(
  output: Output,
  service: string,
  program: string,
  args: readonly string[],
): Promise<void> {
  const file = PLACES.map((place) => fileURLToPath(new URL(place(service, program), import.meta.url))).find(existsSync);
  if (file === undefined)
    throw new UsageError(`there is no ${service} beside this command: run it where the service is installed`);
  const child = spawn(process.execPath, [file, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.setEncoding("utf8").on("data", (text: string) => output.text(text));
  createInterface({ input: child.stderr }).on("line", (line) => output.say(line));
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new EndedWith(EXIT_CODES.failed);
}

/** Throws UsageError unless the file is readable. */
export function requireReadable(what: string, file: string): void {
  try {
    accessSync(file, constants.R_OK);
  } catch (error) {
    throw new UsageError(`cannot read the ${what}: ${messageOf(error)}`);
  }
}
