import { rename, rm, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { DomainError, InvalidArgumentError, messageOf } from "@diskmesh/domain";
import { loadConfig } from "@diskmesh/service";
import { examineStorage, type Schema } from "@diskmesh/tablet";
import { backupPieces, checkBackup } from "@diskmesh/tablet/backup-file";
import type { z } from "zod";
import type { TabletConfig } from "./open-tablet.js";

const USAGE = `check-store.js --config FILE [--salvage BACKUP]
  --config FILE      the service's own configuration: its tablet is what is checked, a folder or a database
  --salvage BACKUP   the file for a backup of what can be trusted`;

/**
 * Checks or salvages the tablet of a stopped service and exits the process, with code 1 when a check found damage.
 * Arguments come from the command line.
 */
export async function runStoreCheck(options: {
  readonly service: string;
  readonly configSchema: z.ZodType<{ readonly tablet: TabletConfig }>;
  readonly schema: Schema;
}): Promise<never> {
  try {
    const { config: configFile, salvage } = argumentsOf(process.argv.slice(2));
    const source = { service: options.service, file: resolve(configFile), env: process.env };
    const { storage, name, leaseTimeMs } = loadConfig(options.configSchema, source).config.tablet;
    const { schema } = options;
    const { claim, documents, problems } = await examineStorage(storage, name, { schema, leaseTimeMs });
    if (salvage !== undefined) {
      const header = { tabletName: name, ...claim, createdAtMs: Date.now() };
      await writeBackup(salvage, backupPieces(header, documents));
    }
    const outcome = salvage === undefined ? "can be trusted" : `are in ${salvage}; \`restore --replace\` takes it`;
    const summary =
      problems.length === 0
        ? `${documents.length} documents, and the store is whole${salvage === undefined ? "" : `; they ${outcome}`}`
        : `${problems.length} problems; ${documents.length} documents ${outcome}`;
    process.stdout.write([...problems, `tablet ${name}, ${claim.tabletId}: ${summary}`, ""].join("\n"));
    process.exit(problems.length > 0 && salvage === undefined ? 1 : 0);
  } catch (error) {
    const text = error instanceof DomainError ? error.message : error instanceof Error ? error.stack : String(error);
    process.stderr.write(`cannot check the store: ${text}\n`);
    process.exit(1);
  }
}

/** Writes the file readable by its owner only, because a backup may hold credentials. */
async function writeBackup(file: string, pieces: Iterable<string>): Promise<void> {
  const draft = `${file}.part`;
  try {
    await writeFile(draft, pieces, { mode: 0o600, flush: true });
    await checkBackup(draft);
    await rename(draft, file);
  } catch (error) {
    throw new InvalidArgumentError(`cannot write the backup: ${messageOf(error)}`, { cause: error });
  } finally {
    await rm(draft, { force: true });
  }
}

function argumentsOf(args: readonly string[]): { config: string; salvage: string | undefined } {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: { config: { type: "string" }, salvage: { type: "string" } },
    });
    const { config, salvage } = values;
    if (!config) throw new Error("--config is needed");
    return { config, salvage };
  } catch (error) {
    throw new InvalidArgumentError(`${messageOf(error)}\n${USAGE}`, { cause: error });
  }
}
