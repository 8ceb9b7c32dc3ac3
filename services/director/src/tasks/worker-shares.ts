/** The share of tasks that have to do with these CPIs. */
export const shareNameOf = (cpis: readonly string[]): string => JSON.stringify([...new Set(cpis)].sort());

/** The last of so many places of a queue are kept for shares that have few. */
const PLACES_PER_KEPT_ONE = 6;
const FEW_TASKS = 2;

/**
 * Returns true when a queue has room for another task of a share. The last sixth of its places is for shares with
 * hardly a task.
 */
export function mayJoin(queue: { readonly ofShare: number; readonly length: number; readonly limit: number }): boolean {
  const { ofShare, length, limit } = queue;
  const kept = Math.floor(limit / PLACES_PER_KEPT_ONE);
  return length < (ofShare < FEW_TASKS ? limit : limit - kept);
}

/** The most of so many places that one login may take at a time; the others stay free for other logins. */
export const placesPerLogin = (places: number): number => Math.ceil(places / 2);

/** A task that got a worker, so that it may go on. */
export interface Taken {
  readonly hasWorker: boolean;
  /** The task that has got the worker of another share instead, if one had waited for it. */
  readonly next: number | undefined;
}

/**
 * The workers of one queue: a share of so many for each set of CPIs that tasks ask. A task waits only for tasks of its own
 * share, which ask the same CPIs: a CPI that hangs keeps nobody waiting who does not ask it, and a task that asks it and
 * others waits with its like. Whoever gets no worker waits in line for the next one of its share.
 */
export class WorkerShares {
  readonly #shares = new Map<string, { readonly holders: Set<number>; readonly waiting: Set<number> }>();
  /** Which share a task holds a worker of, or waits for. */
  readonly #shareOf = new Map<number, string>();

  constructor(private readonly workersPerShare: number) {}

  /** Gives the task a worker, or a place in line. A task that has to do with other CPIs by now changes its share. */
  take(taskId: number, cpis: readonly string[]): Taken {
    const name = shareNameOf(cpis);
    const present = this.#shareOf.get(taskId);
    if (present === name && this.#shares.get(present)?.holders.has(taskId)) return { hasWorker: true, next: undefined };
    const next = present === undefined || present === name ? undefined : this.release(taskId);
    const share = this.#shares.get(name) ?? { holders: new Set(), waiting: new Set() };
    this.#shares.set(name, share);
    this.#shareOf.set(taskId, name);
    const hasWorker = share.holders.size < this.workersPerShare;
    (hasWorker ? share.holders : share.waiting).add(taskId);
    return { hasWorker, next };
  }

  /** The task needs no worker any more. Returns the task that has got it instead, if one has waited. */
  release(taskId: number): number | undefined {
    const name = this.#shareOf.get(taskId);
    const share = name === undefined ? undefined : this.#shares.get(name);
    if (name === undefined || share === undefined) return undefined;
    this.#shareOf.delete(taskId);
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
