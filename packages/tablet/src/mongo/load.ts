import { InvalidStateError } from "@diskmesh/domain";
import type { DocumentServer, Fields, StoredDocument } from "./document-server.js";
import { decodeDocument } from "./encoding.js";
import type { LoadEntry, TabletLog } from "./log.js";
import type { Patience } from "./patience.js";

export interface LoadOptions {
  readonly server: DocumentServer;
  readonly tabletName: string;
  readonly patience: Patience;
  readonly log: TabletLog;
}

/** What a load leaves for the view to be brought up to date with. */
export interface Loaded {
  /** Everything up to that number is in the view. */
  readonly checkpoint: number;
  /** By table and id, what became of each document that the log changed after the checkpoint. */
  readonly outcomes: Outcomes;
}

export type Outcomes = Map<string, Map<string, Fields | null>>;

/** Documents that one read fetches. */
const PAGE_DOCUMENTS = 1_000;

/** Reads the view, then the log after the checkpoint; per document the log wins. */
export async function loadTablet(
  options: LoadOptions,
  onDocument: (table: string, key: string, document: object) => void,
): Promise<Loaded> {
  const { log } = options;
  const claim = log.claimed._id;
  let checkpoint = 0;
  const loads: LoadEntry[] = [];
  for await (const entry of log.entries(["checkpoint", "load"], { after: 0, below: claim })) {
    if (entry.kind === "load") loads.push(entry);
    else checkpoint = Math.max(checkpoint, entry.upTo);
  }
  const outcomes: Outcomes = new Map();
  for await (const entry of log.entries(["commit"], { after: checkpoint, below: claim })) {
    for (const { table, id, document } of entry.changes) outcomesOf(outcomes, table).set(id, document);
  }
  const isLeftover = leftoverTest(loads.filter((load) => load.claim <= checkpoint));
  await loadView(options, outcomes, isLeftover, onDocument);
  for (const [table, byId] of outcomes) {
    for (const [id, document] of byId) if (document !== null) onDocument(table, id, decodeDocument(document));
  }
  return { checkpoint, outcomes };
}

async function loadView(
  options: LoadOptions,
  outcomes: Outcomes,
  isLeftover: (seq: number) => boolean,
  onDocument: (table: string, key: string, document: object) => void,
): Promise<void> {
  const { server, tabletName, patience } = options;
  const prefix = `${tabletName}.`;
  for (const collection of await patience.answerOf(() => server.collections(prefix))) {
    const table = collection.slice(prefix.length);
    if (table === "log") continue;
    const changed = outcomesOf(outcomes, table);
    for await (const stored of documentsOf(options, collection)) {
      const { id, seq } = identityOf(server, collection, stored);
      if (changed.has(id)) continue;
      // A leftover goes from the view as if the log had deleted it.
      if (isLeftover(seq)) changed.set(id, null);
      else onDocument(table, id, decodeDocument(stored));
    }
  }
}

async function* documentsOf({ server, patience }: LoadOptions, collection: string): AsyncGenerator<StoredDocument> {
  for (let after: string | number | undefined; ; ) {
    const page = await patience.answerOf(() => server.find(collection, { after, limit: PAGE_DOCUMENTS }));
    yield* page;
    if (page.length < PAGE_DOCUMENTS) return;
    after = page.at(-1)?._id;
  }
}

function identityOf(server: DocumentServer, collection: string, stored: StoredDocument): { id: string; seq: number } {
  const { _id: id, _seq: seq } = stored;
  if (typeof id === "string" && typeof seq === "number") return { id, seq };
  throw new InvalidStateError(
    `${collection} in MongoDB at ${server.name} holds a document that diskmesh did not write, _id ${JSON.stringify(id)}; delete it, or restore a backup`,
  );
}

function outcomesOf(outcomes: Outcomes, table: string): Map<string, Fields | null> {
  let byId = outcomes.get(table);
  if (byId === undefined) {
    byId = new Map();
    outcomes.set(table, byId);
  }
  return byId;
}

/**
 * Tells the leftovers of dead leaders from what is in the view by right. A leader that took up everything up to its
 * claim, from a checkpoint, wrote the outcome of all that lies in between anew, at the number of its claim or higher.
 * So once that is in the view, a number in between is a write that arrived late. `loads` are those of which it is.
 */
export function leftoverTest(
  loads: readonly { readonly from: number; readonly claim: number }[],
): (seq: number) => boolean {
  // Thousands of restarts against millions of documents: joined into few spans, in order.
  const spans: { after: number; before: number }[] = [];
  for (const { from, claim } of [...loads].sort((a, b) => a.from - b.from)) {
    const last = spans.at(-1);
    if (claim - from < 2) continue;
    if (last !== undefined && from < last.before) last.before = Math.max(last.before, claim);
    else spans.push({ after: from, before: claim });
  }
  return (seq) => {
    let [low, high] = [0, spans.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((spans[middle] as { before: number }).before <= seq) low = middle + 1;
      else high = middle;
    }
    return low < spans.length && (spans[low] as { after: number }).after < seq;
  };
}
