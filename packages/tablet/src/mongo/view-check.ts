import { UnavailableError } from "@diskmesh/domain";
import { sleep, type TabletClock } from "../clock.js";
import type { DocumentServer, StoredDocument } from "./document-server.js";
import { decodeDocument } from "./encoding.js";
import { leftoverTest } from "./followed-state.js";
import { type LoadOptions, pagesOf } from "./load.js";
import { FOREVER_MS } from "./patience.js";

/** State that a view must show, as known to the process that checks the view. */
export interface CheckedState {
  /** Returns the log number at which its incarnation begins. */
  firstNumber(): number;
  size(): number;
  tables(): readonly string[];
  keys(table: string): readonly string[];
  /** Returns the same object until the document changes; undefined when there is none. */
  get(table: string, id: string): object | undefined;
  checksum(table: string, id: string): bigint | undefined;
  /** Returns the highest log number that the view can have by now. */
  lastNumber(): number;
  /** Resolves once the view shows everything up to that log number and everything in the present state. */
  applied(upTo: number): Promise<void>;
  /** Resolves once the state has everything that the view shows now. */
  caughtUp(): Promise<void>;
}

/** A document of the view that differs from the committed one. */
export interface WrongDocument {
  readonly table: string;
  readonly id: string;
  /** Document in the view; undefined when there is none. */
  readonly stored: StoredDocument | undefined;
}

export interface ViewCheckOptions extends Pick<LoadOptions, "tabletName" | "patience" | "log" | "isOurs"> {
  readonly server: DocumentServer;
  readonly clock: TabletClock;
  /**
   * Pause between two checks. A check takes at most eleven times as long: with an hour, everything is checked every 12
   * h.
   */
  readonly intervalMs: number;
  readonly signal: AbortSignal;
  /** Returns undefined while there is no state to compare with. */
  readonly state: () => CheckedState | undefined;
  readonly onWrong: (wrong: readonly WrongDocument[]) => Promise<void>;
}

/** Limit of documents that a message names. */
const SHOWN_MAX = 10;
const PAGE_DOCUMENTS = 100;
const PAGE_PAUSE_MS = 1_000;
const CHECK_INTERVALS_MAX = 11;

type LeftoverTest = (seq: number) => boolean;

/** Returns a message about wrong documents of one table. `outcome` states what happens to them. */
export function editedText(
  { server, tabletName }: { readonly server: { readonly name: string }; readonly tabletName: string },
  wrong: readonly WrongDocument[],
  outcome: string,
): string {
  const shown = wrong.slice(0, SHOWN_MAX).map(({ id }) => JSON.stringify(id));
  const more = wrong.length > SHOWN_MAX ? ` and ${wrong.length - SHOWN_MAX} more` : "";
  return `${tabletName}.${wrong[0]?.table} in MongoDB at ${server.name} was changed by something else than diskmesh, documents ${shown.join(", ")}${more}; ${outcome}`;
}

/** Compares the view with the state at an interval until the signal aborts. */
export async function keepViewChecked(options: ViewCheckOptions): Promise<void> {
  const { clock, intervalMs, signal } = options;
  while (!signal.aborted) {
    await sleep(clock, intervalMs, signal).catch(() => {});
    const state = signal.aborted ? undefined : options.state();
    // A failed check is repeated later; an error that ends the leader or follower is reported by their own work.
    if (state !== undefined) await checkView(options, state).catch(() => {});
  }
}

async function checkView(options: ViewCheckOptions, state: CheckedState): Promise<void> {
  const { server, tabletName, patience, isOurs, clock, intervalMs, signal } = options;
  const prefix = `${tabletName}.`;
  const collections = await patience.answerOf(() => server.collections(prefix), FOREVER_MS);
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
 * Reads the documents again once the view must show the state, because a document may have changed since it was read.
 */
async function confirm(
  options: ViewCheckOptions,
  state: CheckedState,
  table: string,
  ids: readonly string[],
): Promise<void> {
  if (ids.length === 0) return;
  const { server, tabletName, patience, onWrong } = options;
  const [before, numberBefore] = [ids.map((id) => state.get(table, id)), state.lastNumber()];
  // Documents covered by a load have the number of its claim once the claim is applied.
  const earlier = await loads(options, state);
  await state.applied(earlier.lastClaim);
  const stored: (StoredDocument | undefined)[] = [];
  for (const id of ids)
    stored.push(await patience.answerOf(() => server.get(`${tabletName}.${table}`, id), FOREVER_MS));
  await state.caughtUp();
  // A late write may be covered by a load that came after it was sent.
  const later = await loads(options, state);
  const wrong = ids
    .map((id, index) => ({ table, id, stored: stored[index] }))
    .filter(({ id, stored }, index) => {
      if (state.get(table, id) !== before[index]) return false;
      if (before[index] !== undefined) return !isRight(state, table, id, stored, earlier.isLeftover);
      // The document may have been created and deleted since.
      const [seq, now] = [stored?._seq as number, state.lastNumber()];
      return !(seq > numberBefore && seq <= now) && !isRight(state, table, id, stored, later.isLeftover);
    });
  if (wrong.length > 0) await onWrong(wrong);
}

/** Throws UnavailableError when the log is by now of another incarnation than the state. */
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
 * Returns true when a load would take the stored document for that of the state, or for a leftover when the state has
 * none.
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
