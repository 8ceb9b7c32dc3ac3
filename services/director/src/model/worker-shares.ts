/**
 * The workers of one queue, so many for each CPI: tasks that wait for one that hangs keep no other's waiting. Whoever
 * gets no worker waits in line for the next one of its CPI.
 */
export class WorkerShares {
  readonly #shares = new Map<string, { readonly holders: Set<number>; readonly waiting: Set<number> }>();
  /** Which share a task holds a worker of, or waits for. */
  readonly #shareOf = new Map<number, string>();

  constructor(private readonly workersPerCpi: number) {}

  /** Whether the task has a worker now. A worker that it has already stays its own, whatever CPI is named. */
  take(taskId: number, cpi: string): boolean {
    const present = this.#shareOf.get(taskId);
    if (present !== undefined && this.#shares.get(present)?.holders.has(taskId)) return true;
    if (present !== undefined && present !== cpi) this.release(taskId);
    const share = this.#shares.get(cpi) ?? { holders: new Set(), waiting: new Set() };
    this.#shares.set(cpi, share);
    this.#shareOf.set(taskId, cpi);
    const isFree = share.holders.size < this.workersPerCpi;
    (isFree ? share.holders : share.waiting).add(taskId);
    return isFree;
  }

  /** The task needs no worker any more. Returns the task that has got it instead, if one has waited. */
  release(taskId: number): number | undefined {
    const cpi = this.#shareOf.get(taskId);
    const share = cpi === undefined ? undefined : this.#shares.get(cpi);
    if (cpi === undefined || share === undefined) return undefined;
    this.#shareOf.delete(taskId);
    share.waiting.delete(taskId);
    const [next] = share.holders.delete(taskId) ? share.waiting : [];
    if (next !== undefined) {
      share.waiting.delete(next);
      share.holders.add(next);
    }
    if (share.holders.size + share.waiting.size === 0) this.#shares.delete(cpi);
    return next;
  }
}
