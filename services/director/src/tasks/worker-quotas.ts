/** Returns the name of a set of CPIs, by which tasks that call the same CPIs are grouped. */
export const cpiSetName = (cpis: readonly string[]): string => JSON.stringify([...new Set(cpis)].sort());

/** One place in this many is kept for CPI sets with few tasks. */
const PLACES_PER_KEPT_ONE = 6;
const FEW_TASKS = 2;

/**
 * Returns true when the queue admits another task of the CPI set. The last sixth of the places is kept for CPI sets
 * with fewer than FEW_TASKS tasks.
 */
export function mayJoin(queue: { readonly ofShare: number; readonly length: number; readonly limit: number }): boolean {
  const { ofShare, length, limit } = queue;
  const kept = Math.floor(limit / PLACES_PER_KEPT_ONE);
  return length < (ofShare < FEW_TASKS ? limit : limit - kept);
}

/** Returns the maximum of places that a single login may occupy; the rest stays free for other logins. */
export const placesPerLogin = (places: number): number => Math.ceil(places / 2);

/** The outcome of a worker request. */
export interface Taken {
  readonly hasWorker: boolean;
  /**
   * The task that receives the worker which this task held with its former CPI set, if a task waited for the worker.
   */
  readonly next: number | undefined;
}

/**
 * The workers of a queue: a fixed number for each set of CPIs. A task waits only for tasks that call the same CPIs, so
 * a hanging CPI blocks no task that does not call it. A task without a worker queues for the next free worker of its
 * CPI set.
 */
export class WorkerQuotas {
  readonly #shares = new Map<string, { readonly holders: Set<number>; readonly waiting: Set<number> }>();
  /** The CPI set with which a task holds or awaits a worker. */
  readonly #cpiSetOf = new Map<number, string>();

  constructor(private readonly workersPerSet: number) {}

  /** Assigns a worker to the task, or queues the task. A task whose CPIs have changed moves to the other CPI set. */
  take(taskId: number, cpis: readonly string[]): Taken {
    const name = cpiSetName(cpis);
    const present = this.#cpiSetOf.get(taskId);
    if (present === name && this.#shares.get(present)?.holders.has(taskId)) return { hasWorker: true, next: undefined };
    const next = present === undefined || present === name ? undefined : this.release(taskId);
    const share = this.#shares.get(name) ?? { holders: new Set(), waiting: new Set() };
    this.#shares.set(name, share);
    this.#cpiSetOf.set(taskId, name);
    const hasWorker = share.holders.size < this.workersPerSet;
    (hasWorker ? share.holders : share.waiting).add(taskId);
    return { hasWorker, next };
  }

  /** Releases the task's worker. Returns the waiting task that receives the worker, if any. */
  release(taskId: number): number | undefined {
    const name = this.#cpiSetOf.get(taskId);
    const share = name === undefined ? undefined : this.#shares.get(name);
    if (name === undefined || share === undefined) return undefined;
    this.#cpiSetOf.delete(taskId);
    share.waiting.delete(taskId);
    const [next] = share.holders.delete(taskId) ? share.waiting : [];
    if (next !== undefined) {
      share.waiting.delete(next);
      share.holders.add(next);
    }
    if (share.holders.size + share.waiting.size === 0) this.#shares.delete(name);
    return next;
  }
}
