import { DomainError, messageOf } from "@diskmesh/domain";
import pLimit from "p-limit";
import type { TaskRun } from "./task-run.js";

export interface Failure {
  /** The display name of the instance or disk. */
  readonly name: string;
  readonly error: unknown;
}

/**
 * Runs `work` on all items, `atOnce` at a time. After a failure no further item begins, unless `goesOn` is set; items
 * under way are finished.
 */
export async function runAll<Item extends { readonly name: string }>(
  run: TaskRun,
  items: readonly Item[],
  { atOnce, goesOn }: { readonly atOnce: number; readonly goesOn: boolean },
  work: (item: Item) => Promise<void>,
): Promise<Failure[]> {
  const mayGoOn = (failed: readonly unknown[]) => !run.stopped.aborted && (goesOn || failed.length === 0);
  const failed = await triedSideBySide(items, atOnce, work, mayGoOn);
  return failed.map(({ item: { name }, error }) => ({ name, error }));
}

/** Throws the failures as a single error, or the stop request if the task must stop. */
export function finish(run: TaskRun, failures: readonly Failure[], what = "instances"): void {
  const failure = failureOf(failures, run.stopped, what);
  if (failure !== undefined) throw failure;
  run.checkpoint();
}

/** Combines several failures of a task. */
class SeveralFailedError extends DomainError {
  override readonly reason = "INSTANCES_FAILED";
  override readonly outcome: "not_done" | "unknown";

  constructor(message: string, errors: readonly DomainError[]) {
    super(message, { cause: errors[0] });
    this.outcome = errors.some(({ outcome }) => outcome === "unknown") ? "unknown" : "not_done";
  }
}

/** Maximum total length of the failure texts in a task's result; each failure gets an equal share. */
const TEXTS_LENGTH = 1_800;
const MIN_TEXT_LENGTH = 60;

/**
 * Returns a single error for all failures; undefined when there is none, or when items only failed because the task was
 * stopped.
 */
function failureOf(failures: readonly Failure[], stopped: AbortSignal, what: string): unknown {
  const real = failures.filter(({ error }) => error !== stopped.reason);
  const bug = real.find(({ error }) => !(error instanceof DomainError));
  if (bug !== undefined) return bug.error;
  if (real.length < 2) return real[0]?.error;
  const length = Math.max(MIN_TEXT_LENGTH, Math.floor(TEXTS_LENGTH / real.length));
  const texts = real.map(({ name, error }) => shorten(`${name}: ${messageOf(error)}`, length));
  return new SeveralFailedError(
    // BOSH's API returns the first 128 characters of a result, so the first cause comes early.
    `${real.length} ${what} failed: ${texts.join("; ")}; see the events for more`,
    real.map(({ error }) => error as DomainError),
  );
}

function shorten(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 3)}...`;
}

interface Failed<Item> {
  readonly item: Item;
  readonly error: unknown;
}

/**
 * Runs `work` on all items, `atOnce` at a time, and throws the first failure once every item under way has finished.
 */
export async function sideBySide<Item>(
  items: Iterable<Item>,
  atOnce: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const [first] = await triedSideBySide(items, atOnce, work, (failures) => failures.length === 0);
  if (first !== undefined) throw first.error;
}

/** Begins no further item once `mayGoOn` is false; items under way are finished. Returns the failed items. */
async function triedSideBySide<Item>(
  items: Iterable<Item>,
  atOnce: number,
  work: (item: Item) => Promise<void>,
  mayGoOn: (failures: readonly Failed<Item>[]) => boolean,
): Promise<Failed<Item>[]> {
  const failures: Failed<Item>[] = [];
  await pLimit(Math.max(1, atOnce)).map(items, async (item) => {
    if (!mayGoOn(failures)) return;
    await work(item).catch((error: unknown) => failures.push({ item, error }));
  });
  return failures;
}
