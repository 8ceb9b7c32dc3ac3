import { InvalidStateError, messageOf } from "@diskmesh/domain";
import { examineStorage, type Schema } from "@diskmesh/tablet";
import { documentsOf } from "@diskmesh/tablet/backup-file";
import type { TabletConfig } from "./open-tablet.js";

export interface Replaced {
  /** Number of documents in the tablet. */
  readonly documents: number;
  /** Number of these that the backup lacks. */
  readonly lacking: number;
}

/**
 * Counts the documents of the tablet that a backup would replace. Returns the reason when the tablet cannot be read, for
 * which a restore is the cure. Rejects with UnavailableError while a process uses the tablet.
 */
export async function replacedDocuments(
  file: string,
  tablet: TabletConfig,
  schema: Schema,
): Promise<Replaced | string> {
  const { storage, name, leaseTimeMs } = tablet;
  const reading = { schema, leaseTimeMs, withGaps: true };
  try {
    const { documents } = await examineStorage(storage, name, reading);
    return await compare(documents, documentsOf(file));
  } catch (error) {
    if (error instanceof InvalidStateError) return messageOf(error);
    throw error;
  }
}

/** Returns why a restore needs a further confirmation; undefined when it discards at most half of the documents. */
export function refusalOf({ documents, lacking }: Replaced, where: string): string | undefined {
  if (lacking * 2 <= documents) return undefined;
  return `the backup lacks ${lacking} of the ${documents} documents of ${where}: if it is the right backup, give --discard-most, too`;
}

interface Keyed {
  readonly table: string;
  readonly key: string;
}

async function compare(present: readonly Keyed[], backedUp: AsyncIterable<Keyed>): Promise<Replaced> {
  const lacking = new Set(present.map(idOf));
  const documents = lacking.size;
  for await (const each of backedUp) lacking.delete(idOf(each));
  return { documents, lacking: lacking.size };
}

function idOf({ table, key }: Keyed): string {
  return `${table}\0${key}`;
}
