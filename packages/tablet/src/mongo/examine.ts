import { randomUUID } from "node:crypto";
import { InvalidStateError, UnavailableError } from "@diskmesh/domain";
import type { Checked, StoredSums } from "../documents/checksums.js";
import type { Schema } from "../documents/schema.js";
import { Examination, type Examined } from "../examine/examination.js";
import { sleep, type TabletClock } from "../storage/clock.js";
import { FORMAT_TABLE, newerFormat, STORE_FORMAT } from "../storage/format.js";
import { LEASES } from "./collections.js";
import type { DocumentReader, DocumentServer, Fields, StoredDocument } from "./document-server.js";
import { decodeDocument } from "./encoding.js";
import { leftoverTest } from "./followed-state.js";
import { pagesOf } from "./load.js";
import type { ClaimEntry, CommitEntry, Entry, LoadEntry } from "./log.js";
import { RetryPolicy } from "./retry-policy.js";

export interface ExamineOptions {
  readonly server: DocumentServer;
  readonly tabletName: string;
  readonly schema: Schema;
  readonly clock: TabletClock;
  /** Time within which a live leader renews its lease. */
  readonly leaseTimeMs: number;
}

const GIVE_UP_AFTER_MS = 20_000;
const NEVER = new AbortController().signal;

/** Reads a tablet without changing it. Rejects with UnavailableError while a process leads it. */
export async function examineMongo(options: ExamineOptions): Promise<Examined> {
  const { server, clock } = options;
  const retryPolicy = new RetryPolicy({
    clock,
    signal: NEVER,
    serverName: server.name,
    giveUpAfterMs: GIVE_UP_AFTER_MS,
  });
  await refuseLeader(retryPolicy, options);
  return server.readInOrder((reader) => examine(reader, retryPolicy, options));
}

/** Throws when the lease is renewed while this function watches it, because then a leader is alive. */
async function refuseLeader(
  retryPolicy: RetryPolicy,
  { server, tabletName, clock, leaseTimeMs }: ExamineOptions,
): Promise<void> {
  const lease = () => retryPolicy.answerOf(() => server.get(LEASES, tabletName));
  const before = await lease();
  if (before === undefined || before.writer === "") return;
  await sleep(clock, leaseTimeMs, NEVER);
  const after = await lease();
  if (after?.renewals === before.renewals) return;
  throw new UnavailableError(
    `the process at ${after?.address} leads the tablet ${tabletName}: stop it first; while it leads, it compares what is stored with its state itself`,
  );
}

async function examine(
  server: DocumentReader,
  retryPolicy: RetryPolicy,
  { tabletName, schema }: ExamineOptions,
): Promise<Examined> {
  const found = new Examination(schema);
  const entries: Entry[] = [];
  for await (const page of pagesOf({ server, retryPolicy }, `${tabletName}.log`))
    entries.push(...(page as unknown as Entry[]));
  const claim = entries.findLast((entry): entry is ClaimEntry => entry.kind === "claim");
  if (claim !== undefined && claim.format > STORE_FORMAT)
    throw new InvalidStateError(newerFormat(`tablet ${tabletName} in MongoDB at ${server.name}`, claim.format));
  const firstNumber = claim?.firstNumber ?? 1;
  const log = readLog(
    entries.filter(({ _id }) => _id >= firstNumber),
    found,
  );
  const isLeftover = leftoverTest(
    entries.filter((each): each is LoadEntry => each.kind === "load" && each.claim <= log.checkpoint),
    firstNumber,
  );
  for (const [table, byId] of log.changed)
    for (const [id, document] of byId) if (document !== null) add(found, table, id, document);
  const prefix = `${tabletName}.`;
  for (const collection of await retryPolicy.answerOf(() => server.collections(prefix))) {
    const table = collection.slice(prefix.length);
    // Collections with unknown names are ignored unless the log's sums include them.
    if (table === "log" || !(table === FORMAT_TABLE || Object.hasOwn(schema, table) || log.sums?.[table])) continue;
    for await (const page of pagesOf({ server, retryPolicy }, collection)) {
      for (const stored of page) {
        const { _id: id, _seq: seq } = stored;
        if (log.changed.get(table)?.has(id as string) || isLeftover(seq as number)) continue;
        const wrong = wrongNumber(stored, log.last);
        if (wrong === undefined) add(found, table, id as string, stored);
        else found.leaveOut(table, id, wrong);
      }
    }
  }
  if (log.sums !== undefined) found.compare(log.sums);
  const examined = claimOf(claim, entries, found);
  // Every problem of a database is a document that is missing or left out.
  return { claim: examined, ...found.result(found.problems.length === 0) };
}

interface ReadLog {
  readonly checkpoint: number;
  /** Number of the last entry; undefined when there is no log. */
  readonly last: number | undefined;
  /** Latest changes in the log that may be missing from the view, by table and id; null means deleted. */
  readonly changed: ReadonlyMap<string, ReadonlyMap<string, Fields | null>>;
  /** Sums of the whole state; undefined when the log has none. */
  readonly sums: StoredSums | undefined;
}

function readLog(entries: readonly Entry[], found: Examination): ReadLog {
  let checkpoint = 0;
  for (const entry of entries) if (entry.kind === "checkpoint") checkpoint = Math.max(checkpoint, entry.upTo);
  const changed = new Map<string, Map<string, Fields | null>>();
  let [number, sums]: [number, StoredSums | undefined] = [Math.max(checkpoint, (entries[0]?._id ?? 1) - 1), undefined];
  for (const entry of entries.filter(({ _id }) => _id > checkpoint)) {
    if (entry._id !== number + 1)
      found.problems.push(`the log has a gap after number ${number}: what was committed there is lost`);
    number = entry._id;
    if (entry.kind !== "claim") sums = entry.sums;
    if (entry.kind !== "commit") continue;
    for (const { table, id, document } of (entry as CommitEntry).changes) {
      if (!changed.has(table)) changed.set(table, new Map());
      changed.get(table)?.set(id, document);
    }
  }
  return { checkpoint, last: entries.at(-1)?._id, changed, sums };
}

function add(found: Examination, table: string, id: string, stored: Fields): void {
  const decoded = intactDocument(table, id, stored);
  if (decoded === undefined) found.leaveOut(table, id, "a program other than diskmesh changed it");
  else if (table === FORMAT_TABLE) found.count(table, decoded);
  else found.add(table, id, decoded);
}

/** Returns the document if it matches its stored checksum. */
function intactDocument(table: string, id: string, stored: Fields): Checked | undefined {
  try {
    const decoded = decodeDocument(table, id, stored);
    return decoded.isIntact ? decoded : undefined;
  } catch {
    return undefined;
  }
}

function wrongNumber({ _id: id, _seq: seq }: StoredDocument, last: number | undefined): string | undefined {
  if (typeof id !== "string" || typeof seq !== "number") return "diskmesh did not write it";
  return seq > (last ?? Number.POSITIVE_INFINITY)
    ? "it is newer than the log, so it comes from another copy"
    : undefined;
}

function claimOf(claim: ClaimEntry | undefined, entries: readonly Entry[], found: Examination): Examined["claim"] {
  if (entries.length > 0 && entries[0]?.kind !== "claim") found.problems.push("the log does not begin with a claim");
  if (claim === undefined)
    found.problems.push(
      "the log has no claim, so the tablet's identity is not known; a backup gets a new identity, which agents obey only after AdoptFleet",
    );
  else if (claim.isRestore) found.problems.push("it contains a partly restored backup, whose restore was interrupted");
  return {
    tabletId: claim?.tabletId ?? randomUUID(),
    incarnation: claim?.incarnation ?? randomUUID(),
    parentIncarnations: claim?.parentIncarnations ?? [],
    generation: entries.reduce((highest, { generation }) => Math.max(highest, generation), 1),
  };
}
