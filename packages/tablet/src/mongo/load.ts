import { InvalidStateError } from "@diskmesh/domain";
import { CURE } from "../storage/format.js";
import type { IsOurs } from "./collections.js";
import type { DocumentReader, DocumentServer, StoredDocument } from "./document-server.js";
import { FollowedState } from "./followed-state.js";
import { type ClaimEntry, type Entry, EVERY_KIND, type LoadEntry, type TabletLog } from "./log.js";
import type { RetryPolicy } from "./retry-policy.js";

export interface LoadOptions extends ReadOptions {
  readonly server: DocumentServer;
}

/** Options of every reader of a tablet. */
export interface ReadOptions {
  readonly server: DocumentReader;
  readonly tabletName: string;
  readonly retryPolicy: RetryPolicy;
  readonly log: TabletLog;
  readonly isOurs: IsOurs;
  /** Called after each read with its number of documents and log entries. */
  readonly onRead: (documents: number) => void;
}

const PAGE_DOCUMENTS = 1_000;

/**
 * Reads the state up to this process's claim. Finds no gap in the log while that claim is the newest, because then no
 * process deletes entries above the checkpoint.
 */
export function readTablet(options: LoadOptions, claim: ClaimEntry): Promise<FollowedState> {
  return options.server.readInOrder((server) => readAll({ ...options, server }, claim));
}

async function readAll(options: ReadOptions, claim: ClaimEntry): Promise<FollowedState> {
  const state = await beginState(options, claim);
  if (!(await readLog(options, state, claim._id)) || !state.isUpTo(claim)) {
    // A newer leader may have deleted the entries; that is no damage.
    await options.log.refuseFenced();
    throw new InvalidStateError(
      `${options.tabletName}.log in MongoDB at ${options.server.name} has a gap after number ${state.lastNumber}; ${CURE}`,
    );
  }
  await readView(options, state);
  const difference = state.difference(claim);
  if (difference === undefined) return state;
  // A newer leader may be changing the view; that is no damage.
  await options.log.refuseFenced();
  throw new InvalidStateError(`${whereOf(options)} is not whole: ${difference}; ${CURE}`);
}

function whereOf({ tabletName, server }: ReadOptions): string {
  return `tablet ${tabletName} in MongoDB at ${server.name}`;
}

/** Returns an empty state that starts at the current checkpoint and knows the loads, which identify leftovers. */
export async function beginState(options: ReadOptions, claim?: ClaimEntry): Promise<FollowedState> {
  const { server, log, onRead } = options;
  const firstNumber = claim?.firstNumber ?? (await log.firstNumber());
  let checkpoint = firstNumber - 1;
  let entries = 0;
  const loads: LoadEntry[] = [];
  const range = { after: checkpoint, below: claim?._id };
  for await (const entry of log.entries(["checkpoint", "load"], range, server)) {
    entries++;
    if (entry.kind === "load") loads.push(entry);
    else checkpoint = Math.max(checkpoint, entry.upTo);
  }
  onRead(entries);
  return new FollowedState(checkpoint, loads, whereOf(options), firstNumber);
}

/** Adds new log entries to the state. Returns false when entries in between were deleted. */
export async function readLog(options: ReadOptions, state: FollowedState, below?: number): Promise<boolean> {
  const { server, log, onRead } = options;
  let entries = 0;
  try {
    for await (const entry of log.entries<Entry["kind"]>(EVERY_KIND, { after: state.lastNumber, below }, server)) {
      entries++;
      if (!state.append(entry)) return false;
    }
    return true;
  } finally {
    onRead(entries);
  }
}

/** Adds all documents of the view. `betweenPages` may add new log entries; when it returns false, the reading ends. */
export async function readView(
  options: ReadOptions,
  state: FollowedState,
  betweenPages: () => Promise<boolean> = async () => true,
): Promise<boolean> {
  const { server, tabletName, retryPolicy, isOurs, onRead } = options;
  const prefix = `${tabletName}.`;
  for (const collection of await retryPolicy.answerOf(() => server.collections(prefix))) {
    const table = collection.slice(prefix.length);
    if (table === "log") continue;
    if (!isOurs(collection)) {
      state.leaveOut(table);
      continue;
    }
    for await (const page of pagesOf(options, collection)) {
      onRead(page.length);
      for (const stored of page) {
        const { id, seq } = identityOf(server, collection, stored);
        state.addFromView(table, id, seq, stored);
      }
      if (!(await betweenPages())) return false;
    }
  }
  state.endView();
  return true;
}

/** Yields the documents of a collection, ordered by id, page by page. */
export async function* pagesOf(
  { server, retryPolicy }: Pick<ReadOptions, "server" | "retryPolicy">,
  collection: string,
  limit = PAGE_DOCUMENTS,
): AsyncGenerator<StoredDocument[]> {
  for (let after: string | number | undefined; ; ) {
    const page = await retryPolicy.answerOf(() => server.find(collection, { after, limit }));
    yield page;
    if (page.length < limit) return;
    after = page.at(-1)?._id;
  }
}

function identityOf(server: DocumentReader, collection: string, stored: StoredDocument): { id: string; seq: number } {
  const { _id: id, _seq: seq } = stored;
  if (typeof id === "string" && typeof seq === "number") return { id, seq };
  throw new InvalidStateError(
    `${collection} in MongoDB at ${server.name} holds a document that diskmesh did not write, _id ${JSON.stringify(id)}; delete it`,
  );
}
