import { rename, rm, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { DomainError, InvalidArgumentError, messageOf } from "@diskmesh/domain";
import { loadConfig } from "@diskmesh/service";
import { type Examined, examineBackup, examineStorage, type Schema, stateSumOf } from "@diskmesh/tablet";
import { backupPieces, checkBackup } from "@diskmesh/tablet/backup-file";
import type { z } from "zod";
import type { TabletConfig } from "./open-tablet.js";

const USAGE = `check-store.js --config FILE [--backup FILE] [--salvage BACKUP [--with-gaps]]
  --config FILE      the service's own configuration: its tablet is what is checked, a folder or a database
  --backup FILE      a backup that is checked instead
  --salvage BACKUP   the file for a backup of what can be trusted
  --with-gaps        also salvage what is no whole state, because documents are missing from it`;

interface Arguments {
  readonly config: string;
  readonly backup?: string | undefined;
  readonly salvage?: string | undefined;
  readonly withGaps: boolean;
}

/**
 * Checks or salvages the tablet of a stopped service and exits the process, with code 1 when a check found damage or a
 * salvage wrote nothing. Arguments come from the command line.
 */
export async function runStoreCheck(options: {
  readonly configSchema: z.ZodType<{ readonly tablet: TabletConfig }>;
  readonly schema: Schema;
}): Promise<never> {
  try {
    const { config: configFile, backup, salvage, withGaps } = argumentsOf(process.argv.slice(2));
    const { storage, name, leaseTimeMs } = loadConfig(options.configSchema, resolve(configFile)).config.tablet;
    const { schema } = options;
    // A check names the damage everywhere. A salvage without gaps ends at the first damage.
    const reading = { schema, leaseTimeMs, withGaps: withGaps || salvage === undefined };
    const examined =
      backup === undefined ? await examineStorage(storage, name, reading) : await examineBackup(backup, schema);
    const what = backup === undefined ? "the store" : `the backup ${backup}`;
    const isWritten = salvage !== undefined && (examined.isWhole || withGaps);
    if (isWritten) {
      const header = { tabletName: name, ...examined.claim, createdAtMs: Date.now() };
      await writeBackup(salvage, backupPieces(header, examined.documents));
    }
    const outcome = salvage === undefined ? "" : isWritten ? `; they are in ${salvage}` : NOTHING_WRITTEN;
    process.stdout.write(
      [...examined.problems, `tablet ${name}, ${summaryOf(what, examined)}${outcome}`, ""].join("\n"),
    );
    process.exit(salvage === undefined ? Number(examined.problems.length > 0) : Number(!isWritten));
  } catch (error) {
    const text = error instanceof DomainError ? error.message : error instanceof Error ? error.stack : String(error);
    process.stderr.write(`cannot check the store: ${text}\n`);
    process.exit(1);
  }
}

const NOTHING_WRITTEN =
  ". Nothing was written, because agents would obey a backup with gaps: restore an older backup, or give --with-gaps";

function summaryOf(what: string, { claim, documents, problems, isWhole }: Examined): string {
  const found = `${claim.tabletId}: ${documents.length} documents with the sum ${stateSumOf(documents)}`;
  if (problems.length === 0) return `${found}, and ${what} is whole`;
  const state = isWhole ? "a whole state, perhaps not the last one" : "a state with gaps: documents are missing";
  return `${found} can be read, of ${state}; ${problems.length} problems`;
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

function argumentsOf(args: readonly string[]): Arguments {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        config: { type: "string" },
        backup: { type: "string" },
        salvage: { type: "string" },
        "with-gaps": { type: "boolean", default: false },
      },
    });
    const { config, "with-gaps": withGaps, ...files } = values;
    if (!config) throw new Error("--config is needed");
    return { config, withGaps, ...files };
  } catch (error) {
    throw new InvalidArgumentError(`${messageOf(error)}\n${USAGE}`, { cause: error });
  }
}
