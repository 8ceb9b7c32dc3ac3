import { DomainError, messageOf } from "@diskmesh/domain";
import pLimit from "p-limit";
import type { TaskRun } from "./task-run.js";

/** The failure of one instance or disk. */
export interface Failure {
  /** The object's name for people. */
  readonly name: string;
  readonly error: unknown;
}

/** Works on all, so many at once. Begins with no other one after a failure, unless it goes on; finishes what has begun. */
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

/** Throws what has failed. */
export function finish(run: TaskRun, failures: readonly Failure[], what = "instances"): void {
  const failure = failureOf(failures, run.stopped, what);
  if (failure !== undefined) throw failure;
  run.checkpoint();
}

/** Several failed, each for a reason of its own. */
class SeveralFailedError extends DomainError {
  override readonly reason = "INSTANCES_FAILED";
  override readonly outcome: "not_done" | "unknown";

  constructor(message: string, errors: readonly DomainError[]) {
    super(message, { cause: errors[0] });
    this.outcome = errors.some(({ outcome }) => outcome === "unknown") ? "unknown" : "not_done";
  }
}

/** Length of all texts in a task's result, so that each of several failures has its share of it. */
const TEXTS_LENGTH = 1_800;
const MIN_TEXT_LENGTH = 60;

/** All that failed as one error; undefined when nothing did, or nothing but that the task was stopped. */
function failureOf(failures: readonly Failure[], stopped: AbortSignal, what: string): unknown {
  const real = failures.filter(({ error }) => error !== stopped.reason);
  const bug = real.find(({ error }) => !(error instanceof DomainError));
  if (bug !== undefined) return bug.error;
  if (real.length < 2) return real[0]?.error;
  const length = Math.max(MIN_TEXT_LENGTH, Math.floor(TEXTS_LENGTH / real.length));
  const texts = real.map(({ name, error }) => shorten(`${name}: ${messageOf(error)}`, length));
  return new SeveralFailedError(
    // BOSH's API gives the first 128 characters of a result: they are to hold a cause.
    `${real.length} ${what} failed: ${texts.join("; ")}; the events say more`,
    real.map(({ error }) => error as DomainError),
  );
}

function shorten(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 3)}...`;
}

/** An item on which the work failed. */
interface Failed<Item> {
  readonly item: Item;
  readonly error: unknown;
}

/** Works on all items, so many at once. None is left behind at work when another fails: then the first failure is thrown. */
export async function sideBySide<Item>(
  items: Iterable<Item>,
  atOnce: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const [first] = await triedSideBySide(items, atOnce, work, (failures) => failures.length === 0);
  if (first !== undefined) throw first.error;
}

/** Begins with no other one once it may not go on; what has begun is always finished. Returns what failed. */
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
