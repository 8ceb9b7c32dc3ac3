import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { AlreadyExistsError, DomainError, InvalidArgumentError, messageOf } from "@diskmesh/domain";
import { loadConfig } from "@diskmesh/service";
import { databaseName, makeTablet } from "@diskmesh/tablet";
import type { z } from "zod";
import type { TabletConfig } from "./open-tablet.js";

/**
 * Makes the empty tablet of a new installation and exits the process, with code 0 also when the tablet exists. Arguments
 * come from the command line.
 */
export async function runInit(configSchema: z.ZodType<{ readonly tablet: TabletConfig }>): Promise<never> {
  try {
    const { storage, name } = loadConfig(configSchema, configFile()).config.tablet;
    const where = databaseName(storage) ?? storage;
    process.stdout.write(`${await made(storage, name, where)}\n`);
    process.exit(0);
  } catch (error) {
    const text = error instanceof DomainError ? error.message : error instanceof Error ? error.stack : String(error);
    process.stderr.write(`cannot make the tablet: ${text}\n`);
    process.exit(1);
  }
}

async function made(storage: string, name: string, where: string): Promise<string> {
  try {
    const { tabletId } = await makeTablet(storage, name);
    return `made tablet ${name}, ${tabletId}, in ${where}`;
  } catch (error) {
    if (!(error instanceof AlreadyExistsError)) throw error;
    return `tablet ${name} in ${where} exists already: nothing was changed`;
  }
}

function configFile(): string {
  try {
    const { config } = parseArgs({ options: { config: { type: "string" } } }).values;
    if (!config) throw new Error("--config is needed");
    return resolve(config);
  } catch (error) {
    throw new InvalidArgumentError(
      `${messageOf(error)}\ninit.js --config FILE\n  --config FILE   the service's own configuration, which names its tablet`,
      { cause: error },
    );
  }
}
