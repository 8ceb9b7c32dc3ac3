import { UnavailableError } from "@diskmesh/domain";
import { sleep, type TabletClock } from "../storage/clock.js";
import type { DocumentServer, StoredDocument } from "./document-server.js";
import { decodeDocument } from "./encoding.js";
import { leftoverTest } from "./followed-state.js";
import { type LoadOptions, pagesOf } from "./load.js";
import { FOREVER_MS } from "./retry-policy.js";

/** Expected state of a view, as known to the process that checks it. */
export interface CheckedState {
  /** Returns the first log number of the incarnation. */
  firstNumber(): number;
  size(): number;
  tables(): readonly string[];
  keys(table: string): readonly string[];
  /** Returns a document, the same object until it changes; undefined when there is none. */
  get(table: string, id: string): object | undefined;
  checksum(table: string, id: string): bigint | undefined;
  /** Returns the highest log number that a document of the view can have now. */
  lastNumber(): number;
  /** Resolves when the view contains all entries up to this log number and the whole present state. */
  applied(upTo: number): Promise<void>;
  /** Resolves when the state contains everything that the view contains now. */
  caughtUp(): Promise<void>;
}

/** A document of the view that differs from the committed one. */
export interface WrongDocument {
  readonly table: string;
  readonly id: string;
  /** Document as stored in the view; undefined when there is none. */
  readonly stored: StoredDocument | undefined;
}

export interface ViewCheckOptions extends Pick<LoadOptions, "tabletName" | "retryPolicy" | "log" | "isOurs"> {
  readonly server: DocumentServer;
  readonly clock: TabletClock;
  /**
   * Pause between two checks. A check takes at most eleven times as long: with a pause of 1 h, everything is checked
   * every 12 h.
   */
  readonly intervalMs: number;
  readonly signal: AbortSignal;
  /** Returns undefined while there is no complete state to compare with. */
  readonly state: () => CheckedState | undefined;
  readonly onWrong: (wrong: readonly WrongDocument[]) => Promise<void>;
}

/** Maximum number of documents named in a message. */
const SHOWN_MAX = 10;
const PAGE_DOCUMENTS = 100;
const PAGE_PAUSE_MS = 1_000;
const CHECK_INTERVALS_MAX = 11;

type LeftoverTest = (seq: number) => boolean;

/** Describes wrong documents of one table. `outcome` says how they are repaired. */
export function editedText(
  { server, tabletName }: { readonly server: { readonly name: string }; readonly tabletName: string },
  wrong: readonly WrongDocument[],
  outcome: string,
): string {
  const shown = wrong.slice(0, SHOWN_MAX).map(({ id }) => JSON.stringify(id));
  const more = wrong.length > SHOWN_MAX ? ` and ${wrong.length - SHOWN_MAX} more` : "";
  return `${tabletName}.${wrong[0]?.table} in MongoDB at ${server.name} was changed by a program other than diskmesh, documents ${shown.join(", ")}${more}; ${outcome}`;
}

/** Compares the view with the state periodically until the signal aborts. */
export async function keepViewChecked(options: ViewCheckOptions): Promise<void> {
  const { clock, intervalMs, signal } = options;
  while (!signal.aborted) {
    await sleep(clock, intervalMs, signal).catch(() => {});
    const state = signal.aborted ? undefined : options.state();
    // Ignores errors: the check is repeated, and an error that ends the leader or follower is reported by its own
    // operations.
    if (state !== undefined) await checkView(options, state).catch(() => {});
  }
}

async function checkView(options: ViewCheckOptions, state: CheckedState): Promise<void> {
  const { server, tabletName, retryPolicy, isOurs, clock, intervalMs, signal } = options;
  const prefix = `${tabletName}.`;
  const collections = await retryPolicy.answerOf(() => server.collections(prefix), FOREVER_MS);
  const found = collections.filter(isOurs).map((collection) => collection.slice(prefix.length));
  const tables = new Set([...state.tables(), ...found]);
  tables.delete("log");
  const pages = state.size() / PAGE_DOCUMENTS + tables.size;
  const pauseMs = Math.min(PAGE_PAUSE_MS, (CHECK_INTERVALS_MAX * intervalMs) / pages);
  const { isLeftover } = await loads(options, state);
  for (const table of tables) {
    const unseen = new Set(state.keys(table));
    for await (const page of pagesOf(options, prefix + table, PAGE_DOCUMENTS)) {
      for (const { _id: id } of page) unseen.delete(id as string);
      const suspects = page.filter((stored) => !isRight(state, table, stored._id, stored, isLeftover));
      await confirm(
        options,
        state,
        table,
        suspects.map(({ _id }) => _id as string),
      );
      await sleep(clock, pauseMs, signal);
    }
    const missing = [...unseen];
    while (missing.length > 0) {
      await confirm(options, state, table, missing.splice(0, PAGE_DOCUMENTS));
      await sleep(clock, pauseMs, signal);
    }
  }
}

/**
 * Reads suspect documents again once the view must match the state, and reports those that still differ. The first
 * comparison may be wrong, because a document may have changed between the reads of view and state.
 */
async function confirm(
  options: ViewCheckOptions,
  state: CheckedState,
  table: string,
  ids: readonly string[],
): Promise<void> {
  if (ids.length === 0) return;
  const { server, tabletName, retryPolicy, onWrong } = options;
  const [before, numberBefore] = [ids.map((id) => state.get(table, id)), state.lastNumber()];
  // Waits until the last claim is applied. The documents that its load covers then have its number, so they are no
  // leftovers.
  const earlier = await loads(options, state);
  await state.applied(earlier.lastClaim);
  const stored: (StoredDocument | undefined)[] = [];
  for (const id of ids)
    stored.push(await retryPolicy.answerOf(() => server.get(`${tabletName}.${table}`, id), FOREVER_MS));
  await state.caughtUp();
  // Reads the loads again: a late write may be a leftover of a load that came after it was sent.
  const later = await loads(options, state);
  const wrong = ids
    .map((id, index) => ({ table, id, stored: stored[index] }))
    .filter(({ id, stored }, index) => {
      if (state.get(table, id) !== before[index]) return false;
      if (before[index] !== undefined) return !isRight(state, table, id, stored, earlier.isLeftover);
      // A document that was created and deleted between the reads is not wrong.
      const [seq, now] = [stored?._seq as number, state.lastNumber()];
      return !(seq > numberBefore && seq <= now) && !isRight(state, table, id, stored, later.isLeftover);
    });
  if (wrong.length > 0) await onWrong(wrong);
}

/**
 * Returns the leftover test and the last claim. Throws UnavailableError when a restore has begun another incarnation.
 */
async function loads(
  { log }: ViewCheckOptions,
  state: CheckedState,
): Promise<{ isLeftover: LeftoverTest; lastClaim: number }> {
  const entries: { readonly from: number; readonly claim: number }[] = [];
  const firstNumber = await log.firstNumber();
  if (firstNumber !== state.firstNumber()) throw new UnavailableError("a restore has begun another incarnation");
  for await (const { from, claim } of log.entries(["load"], { after: firstNumber - 1 })) entries.push({ from, claim });
  return { isLeftover: leftoverTest(entries, firstNumber), lastClaim: entries.at(-1)?.claim ?? 0 };
}

/**
 * Returns true when a load would accept the stored document as the expected one, or, when none is expected, drop it as
 * a leftover.
 */
function isRight(
  state: CheckedState,
  table: string,
  id: unknown,
  stored: StoredDocument | undefined,
  isLeftover: LeftoverTest,
): boolean {
  const expected = typeof id === "string" ? state.checksum(table, id) : undefined;
  if (stored === undefined || expected === undefined)
    return stored === undefined ? expected === undefined : isLeftover(stored._seq as number);
  const { _seq: seq } = stored;
  if (typeof seq !== "number" || seq > state.lastNumber() || isLeftover(seq)) return false;
  try {
    const { checksum, isIntact } = decodeDocument(table, id as string, stored);
    return isIntact && checksum === expected;
  } catch {
    return false;
  }
}
