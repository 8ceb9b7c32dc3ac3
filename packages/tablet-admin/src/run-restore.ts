import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { DomainError, InvalidArgumentError, messageOf } from "@diskmesh/domain";
import { loadConfig } from "@diskmesh/service";
import { restoreBackup, type Schema } from "@diskmesh/tablet";
import type { z } from "zod";
import { storageOf, type TabletConfig } from "./open-tablet.js";
import { type Replaced, refusalOf, replacedDocuments } from "./replaced-documents.js";

const USAGE = `restore.js --config FILE --from BACKUP [--replace [--discard-most]]
  --config FILE   the service's own configuration: its tablet is what is restored, a folder or a database
  --from BACKUP   the file that \`diskmesh backup\` made
  --replace       replace the tablet: its folder is kept under another name, a database's data is not
  --discard-most  even if the backup lacks most of its documents`;

/**
 * Restores a backup into the tablet of a stopped service and exits the process. Arguments come from the command line.
 */
export async function runRestore(options: {
  readonly configSchema: z.ZodType<{ readonly tablet: TabletConfig }>;
  readonly schema: Schema;
  /** Lines to print for the operator after a restore. */
  readonly notes: readonly string[];
}): Promise<never> {
  try {
    const { config: configFile, from, replace, discardMost } = argumentsOf(process.argv.slice(2));
    const { tablet } = loadConfig(options.configSchema, resolve(configFile)).config;
    if (replace) reportReplaced(await replacedDocuments(from, tablet, options.schema), tablet, discardMost);
    const restored = await restoreBackup({
      file: from,
      schema: options.schema,
      storage: storageOf(tablet),
      tabletName: tablet.name,
      replace,
      leaderWaitMs: 3 * tablet.leaseTimeMs,
    });
    const { documents, tabletId, incarnation, generation } = restored;
    process.stdout.write(
      [
        `restored ${documents} documents of tablet ${tablet.name}, ${tabletId}`,
        `incarnation ${incarnation}, generation ${generation}; counters are 2^32 higher than in the backup`,
        ...options.notes,
        "",
      ].join("\n"),
    );
    process.exit(0);
  } catch (error) {
    const text = error instanceof DomainError ? error.message : error instanceof Error ? error.stack : String(error);
    process.stderr.write(`cannot restore: ${text}\n`);
    process.exit(1);
  }
}

/** Throws InvalidArgumentError when the backup lacks most documents and that is not confirmed. */
function reportReplaced(replaced: Replaced | string, { name }: TabletConfig, discardMost: boolean): void {
  if (typeof replaced === "string") {
    process.stdout.write(`what is replaced is not compared with the backup: ${replaced}\n`);
    return;
  }
  const refusal = refusalOf(replaced, `tablet ${name}`);
  if (refusal !== undefined && !discardMost) throw new InvalidArgumentError(refusal);
  const { documents, lacking } = replaced;
  process.stdout.write(`replacing ${documents} documents of tablet ${name}, of which the backup lacks ${lacking}\n`);
}

interface Arguments {
  readonly config: string;
  readonly from: string;
  readonly replace: boolean;
  readonly discardMost: boolean;
}

function argumentsOf(args: readonly string[]): Arguments {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        config: { type: "string" },
        from: { type: "string" },
        replace: { type: "boolean", default: false },
        "discard-most": { type: "boolean", default: false },
      },
    });
    const { config, from, replace, "discard-most": discardMost } = values;
    if (!config || !from) throw new Error("--config and --from are needed");
    return { config, from, replace, discardMost };
  } catch (error) {
    throw new InvalidArgumentError(`${messageOf(error)}\n${USAGE}`, { cause: error });
  }
}
