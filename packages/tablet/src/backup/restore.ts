import { randomUUID } from "node:crypto";
import { InvalidArgumentError, InvalidStateError, messageOf, quoted, UnavailableError } from "@diskmesh/domain";
import { loadedDocument, versionOf } from "../documents/memory-tables.js";
import type { Schema, StoredChange, StoredDocument, Table } from "../documents/schema.js";
import { commitSized } from "../storage/commit-sized.js";
import type { Claim, TabletStorage } from "../storage/storage.js";
import { checkBackup, documentsOf } from "./backup-file.js";
import { impossibleNumber } from "./backup-rules.js";
import { GENERATION_STEP } from "./restored-claim.js";

export interface RestoreOptions {
  readonly file: string;
  readonly schema: Schema;
  /** Storage to restore into; must be empty unless `replace` is set. */
  readonly storage: TabletStorage;
  /** Name of the configured tablet. It must equal the tablet name in the backup. */
  readonly tabletName: string;
  /** Permits discarding the content of the storage. */
  readonly replace: boolean;
  /**
   * Maximum time to wait until the lease of a killed leader expires. Must exceed the lease time. Only databases have
   * leases.
   */
  readonly leaderWaitMs?: number;
}

const LEADER_WAIT_MS = 20_000;

/** Amount that a restore adds to each counter. No counter can have issued that many values since the backup. */
const COUNTER_STEP = 2 ** 32;
const NUMBER_STEP = 2 ** 32;
/** Assumed number of log entries per millisecond since 1970. No log grows that fast on average. */
const ENTRIES_PER_MS = 16;
/** Number of parent incarnations kept, nearest first. */
const PARENTS_MAX = 64;
const COMMIT_SIZE_BYTES = 4 * 1024 * 1024;
const READ_AHEAD_DOCUMENTS = 10_000;

/**
 * Restores a backup into a storage. The tablet keeps its id, begins a new incarnation, and has counters above every
 * value issued since the backup. Until the restore is complete, leaders refuse the storage.
 */
export async function restoreBackup(options: RestoreOptions): Promise<Claim & { readonly documents: number }> {
  const { file, tabletName, schema } = options;
  const { header, documents } = await checkBackup(file);
  if (header.tabletName !== tabletName) {
    throw new InvalidArgumentError(
      `the backup ${file} is of the tablet ${header.tabletName}, but the config names tablet ${tabletName}: give the config of the right service`,
    );
  }
  // Validates the whole backup before the storage is changed.
  for await (const each of documentsOf(file)) restoredChange(schema, each);
  const filled = await fillTablet({
    ...options,
    claim: restoredClaim(header, randomUUID()),
    lastLogNumber: header.logNumber,
    changes: changesOf(file, schema),
  });
  return { ...filled, documents };
}

async function* changesOf(file: string, schema: Schema): AsyncGenerator<StoredChange> {
  for await (const each of documentsOf(file)) yield restoredChange(schema, each);
}

export interface FillOptions
  extends Pick<RestoreOptions, "schema" | "storage" | "tabletName" | "replace" | "leaderWaitMs"> {
  /** Claim with which the tablet begins. The storage may choose a higher generation. */
  readonly claim: Claim;
  /** Number of the last log entry of a former tablet; absent when unknown. */
  readonly lastLogNumber?: number | undefined;
  /** All documents. They are read once the storage is claimed. */
  readonly changes: AsyncIterable<StoredChange>;
}

/** Makes a tablet with these documents. Until it is complete, leaders refuse the storage. Returns the tablet's claim. */
export async function fillTablet(options: FillOptions): Promise<Claim> {
  const { claim, storage, tabletName, replace, schema, changes } = options;
  const firstNumber = firstNumberAfter(options.lastLogNumber);
  const giveUp = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const onStandby = (leader: string): void => {
    const reason = new UnavailableError(`the process at ${leader} leads the tablet ${tabletName}: stop it first`);
    timer ??= setTimeout(() => giveUp.abort(reason), options.leaderWaitMs ?? LEADER_WAIT_MS);
  };
  try {
    const waiting = { schema, restore: { ...claim, replace, firstNumber }, onStandby, signal: giveUp.signal };
    await storage.claim({ writer: randomUUID(), address: "a restore" }, waiting);
    clearTimeout(timer);
    await storage.load(() => {});
    await commitAll(changes, storage);
    return { ...claim, generation: await storage.claimAbove(claim.generation) };
  } finally {
    clearTimeout(timer);
    await storage.close({ handOver: true });
  }
}

/** Returns the claim with which the restored tablet begins, in a new incarnation. */
export function restoredClaim(backedUp: Claim, incarnation: string): Claim {
  return {
    tabletId: backedUp.tabletId,
    incarnation,
    parentIncarnations: [backedUp.incarnation, ...backedUp.parentIncarnations].slice(0, PARENTS_MAX),
    generation: backedUp.generation + GENERATION_STEP,
  };
}

/**
 * Returns the number of the log's first entry after a restore. It exceeds every number that logs of the tablet may have
 * reached, even if the database was dropped after an earlier restore of the same backup. It is the time since 1970
 * times ENTRIES_PER_MS. If that is not above the backup's number, because the clock was set back, it is the backup's
 * number plus NUMBER_STEP.
 */
export function firstNumberAfter(logNumber = 0, nowMs = Date.now()): number {
  const byClock = nowMs * ENTRIES_PER_MS;
  return logNumber < byClock ? byClock : logNumber + NUMBER_STEP;
}

/** Returns the document to store on a restore, with counters advanced. */
export function restoredDocument(definition: Table<object> | undefined, document: object): object {
  return definition?.onRestore?.(document, COUNTER_STEP) ?? document;
}

async function commitAll(changes: AsyncIterable<StoredChange>, storage: TabletStorage): Promise<void> {
  let read: StoredChange[] = [];
  const commit = async (): Promise<void> => {
    for (const group of commitSized(read, COMMIT_SIZE_BYTES)) await storage.commit(group);
    read = [];
  };
  for await (const each of changes) {
    read.push(each);
    if (read.length >= READ_AHEAD_DOCUMENTS) await commit();
  }
  await commit();
}

function restoredChange(schema: Schema, backedUp: StoredDocument): StoredChange {
  const { table, key } = backedUp;
  // hasOwn, because `schema.constructor` is inherited from Object.
  const definition = (Object.hasOwn(schema, table) ? schema[table] : undefined) as Table<object> | undefined;
  try {
    const document = restoredDocument(definition, loadedDocument(table, key, definition, backedUp));
    const number = impossibleNumber(document);
    if (number !== undefined)
      throw new TypeError(`table ${table}, document ${quoted(key)}: an impossible number: ${number}`);
    return { table, key, document, version: versionOf(definition), previous: null };
  } catch (error) {
    throw new InvalidStateError(
      `the backup has data that this version cannot use: ${messageOf(error)}; restore it with the version that made it`,
    );
  }
}
