/** Returns the name of a set of CPIs, by which tasks that call the same CPIs are grouped. */
export const cpiSetName = (cpis: readonly string[]): string => JSON.stringify([...new Set(cpis)].sort());

/** One of every PLACES_PER_KEPT_ONE places of a queue is kept for CPI sets with fewer than FEW_TASKS tasks. */
const PLACES_PER_KEPT_ONE = 6;
const FEW_TASKS = 2;

/**
 * Returns true when the queue admits another task of the CPI set. The last sixth of the places is kept for CPI sets
 * with fewer than FEW_TASKS tasks.
 */
export function mayJoin(queue: {
  readonly ofCpiSet: number;
  readonly length: number;
  readonly limit: number;
}): boolean {
  const { ofCpiSet, length, limit } = queue;
  const kept = Math.floor(limit / PLACES_PER_KEPT_ONE);
  return length < (ofCpiSet < FEW_TASKS ? limit : limit - kept);
}

/** Returns the maximum of places that a single login may occupy; the rest stays free for other logins. */
export const placesPerLogin = (places: number): number => Math.ceil(places / 2);

/** The outcome of a worker request. */
export interface Taken {
  readonly hasWorker: boolean;
  /**
   * The waiting task that receives this task's former worker because this task moved to another CPI set; undefined for
   * none.
   */
  readonly next: number | undefined;
}

/**
 * The workers of a queue: a fixed number for each set of CPIs. A task waits only for tasks that call the same CPIs, so
 * a hanging CPI blocks no task that does not call it. A task without a worker queues for the next free worker of its
 * CPI set.
 */
export class WorkerQuotas {
  readonly #workers = new Map<string, { readonly holders: Set<number>; readonly waiting: Set<number> }>();
  /** The CPI set with which a task holds or awaits a worker. */
  readonly #cpiSetOf = new Map<number, string>();

  constructor(private readonly workersPerSet: number) {}

  /** Assigns a worker to the task, or queues the task. A task whose CPIs have changed moves to the other CPI set. */
  take(taskId: number, cpis: readonly string[]): Taken {
    const name = cpiSetName(cpis);
    const present = this.#cpiSetOf.get(taskId);
    if (present === name && this.#workers.get(present)?.holders.has(taskId))
      return { hasWorker: true, next: undefined };
    const next = present === undefined || present === name ? undefined : this.release(taskId);
    const set = this.#workers.get(name) ?? { holders: new Set(), waiting: new Set() };
    this.#workers.set(name, set);
    this.#cpiSetOf.set(taskId, name);
    const hasWorker = set.holders.size < this.workersPerSet;
    (hasWorker ? set.holders : set.waiting).add(taskId);
    return { hasWorker, next };
  }

  /** Releases the task's worker. Returns the waiting task that receives the worker, if any. */
  release(taskId: number): number | undefined {
    const name = this.#cpiSetOf.get(taskId);
    const set = name === undefined ? undefined : this.#workers.get(name);
    if (name === undefined || set === undefined) return undefined;
    this.#cpiSetOf.delete(taskId);
    set.waiting.delete(taskId);
    const [next] = set.holders.delete(taskId) ? set.waiting : [];
    if (next !== undefined) {
      set.waiting.delete(next);
      set.holders.add(next);
    }
    if (set.holders.size + set.waiting.size === 0) this.#workers.delete(name);
    return next;
  }
}
