/** Locks are acquired in this order of types, and by resource within a type. The fixed order prevents deadlocks. */
const LOCK_TYPES = ["deployment", "stemcell", "instance", "host", "disk", "node"] as const;
export type LockType = (typeof LOCK_TYPES)[number];

export interface LockName {
  readonly type: LockType;
  readonly resource: string;
}

/** Returns the lock's display name. */
export function lockName({ type, resource }: LockName): string {
  return `${type}:${resource}`;
}

export interface LockTimes {
  /**
   * Time after the last renewal at which the owner is stopped. The lock stays held until the owner's work has ended.
   */
  readonly deadlineMs: number;
  /** Time after which a waiting task gives up. */
  readonly acquireTimeoutMs: number;
}

export interface HeldLock extends LockName {
  readonly taskId: number;
  readonly grantedAtMs: number;
  readonly deadlineAtMs: number;
  readonly waitingTaskIds: readonly number[];
}

interface Waiter {
  readonly taskId: number;
  readonly sinceMs: number;
}

interface Held {
  readonly name: LockName;
  taskId: number;
  grantedAtMs: number;
  /** Time of the grant or of the last renewal. */
  renewedAtMs: number;
  readonly waiters: Waiter[];
}

/** The owner of a lock: a task, or a call outside of tasks. */
export interface LockOwner {
  /** 0 for a call. */
  readonly taskId: number;
  /** The call's purpose and caller; empty for a task. */
  readonly what: string;
}

/** A held lock with wall-clock times, for display. */
export interface ShownLock extends Omit<HeldLock, "grantedAtMs" | "deadlineAtMs">, LockOwner {
  /** Time of the grant. */
  readonly sinceMs: number;
  readonly deadlineAtMs: number;
}

/** Returns a text for the owner; a known task is shown with its description. */
export function ownerText({ taskId, what }: LockOwner, description?: string): string {
  if (what !== "") return what;
  return description === undefined ? `task ${taskId}` : `task ${taskId} (${description})`;
}

/** A task that has waited too long, with the lock and the lock's holder. */
export interface GivenUp {
  readonly taskId: number;
  readonly lock: LockName;
  readonly ownerTaskId: number;
}

export interface Settled {
  /**
   * unchanged: the task held exactly these locks before, so its earlier reads are still valid. acquired: the task holds
   * the locks now and must re-read. waiting: the task is queued for one of the locks and holds the locks that precede
   * it in the lock order.
   */
  readonly outcome: "unchanged" | "acquired" | "waiting";
  /** Tasks that were granted a lock they waited for. */
  readonly granted: readonly number[];
}

export function compareLocks(a: LockName, b: LockName): number {
  return (
    LOCK_TYPES.indexOf(a.type) - LOCK_TYPES.indexOf(b.type) ||
    (a.resource < b.resource ? -1 : a.resource > b.resource ? 1 : 0)
  );
}

function keyOf(lock: LockName): string {
  return `${lock.type} ${lock.resource}`;
}

/**
 * Holders and waiters of all locks, in FIFO order. The table is in memory only, because no task runs yet when a
 * director starts. Callers pass the current time.
 */
export class LockTable {
  readonly #times: Readonly<Record<LockType, LockTimes>>;
  readonly #held = new Map<string, Held>();
  /** Each task's locks in the order of acquisition. */
  readonly #ofTask = new Map<number, LockName[]>();
  readonly #waitsFor = new Map<number, string>();

  constructor(times: Readonly<Record<LockType, LockTimes>>) {
    this.#times = times;
  }

  get size(): number {
    return this.#held.size;
  }

  /**
   * Acquires exactly these locks for the task, in their order. The task keeps the common prefix of held and wanted
   * locks and first releases all others, because acquiring an earlier lock while holding a later lock could deadlock.
   */
  settle(taskId: number, wanted: readonly LockName[], nowMs: number): Settled {
    for (const [index, lock] of wanted.entries()) {
      const previous = wanted[index - 1];
      if (previous !== undefined && compareLocks(previous, lock) >= 0)
        throw new TypeError(`lock ${keyOf(lock)} would be acquired out of order`);
    }
    const mine = this.#ofTask.get(taskId) ?? [];
    let common = 0;
    while (
      common < mine.length &&
      common < wanted.length &&
      compareLocks(mine[common] as LockName, wanted[common] as LockName) === 0
    )
      common++;
    const changed = mine.length !== wanted.length || common !== wanted.length;
    const granted = this.#give(taskId, mine.slice(common), nowMs);
    const next = wanted[common];
    const waitsFor = this.#waitsFor.get(taskId);
    if (waitsFor !== undefined && (next === undefined || waitsFor !== keyOf(next))) this.#stopWaiting(taskId);
    for (const lock of wanted.slice(common)) {
      if (!this.#takeOrWait(taskId, lock, nowMs)) return { outcome: "waiting", granted };
    }
    return { outcome: changed ? "acquired" : "unchanged", granted };
  }

  /** Releases all locks of a task and cancels its wait. Returns the tasks that were granted a lock. */
  release(taskId: number, nowMs: number): number[] {
    this.#stopWaiting(taskId);
    return this.#give(taskId, this.#ofTask.get(taskId) ?? [], nowMs);
  }

  /** Returns the task's locks in the lock order. */
  heldBy(taskId: number): readonly LockName[] {
    return this.#ofTask.get(taskId) ?? [];
  }

  /** Returns the id of the holder; undefined when the lock is free. */
  owner(lock: LockName): number | undefined {
    return this.#held.get(keyOf(lock))?.taskId;
  }

  /** Returns the time of the grant; undefined when the lock is free. */
  heldSinceMs(lock: LockName): number | undefined {
    return this.#held.get(keyOf(lock))?.grantedAtMs;
  }

  /** Transfers all locks of `from` to `to` and cancels the wait of `to`. Other waiters keep their places. */
  handOver(from: number, to: number, nowMs: number): void {
    this.#stopWaiting(to);
    for (const lock of this.#ofTask.get(from) ?? []) {
      Object.assign(this.#held.get(keyOf(lock)) as Held, { taskId: to, grantedAtMs: nowMs, renewedAtMs: nowMs });
      this.#noteHeld(to, lock);
    }
    this.#ofTask.delete(from);
  }

  /** Renews the task's locks, because the task is still working. */
  renew(taskId: number, nowMs: number): void {
    for (const lock of this.#ofTask.get(taskId) ?? []) (this.#held.get(keyOf(lock)) as Held).renewedAtMs = nowMs;
  }

  /** Returns the locks past their deadline. The locks stay held. */
  overdue(nowMs: number): HeldLock[] {
    return this.list().filter((lock) => nowMs >= lock.deadlineAtMs);
  }

  /** Returns the tasks that have waited too long. They stay queued until released. */
  givenUp(nowMs: number): GivenUp[] {
    const all: GivenUp[] = [];
    for (const held of this.#held.values()) {
      for (const waiter of held.waiters) {
        if (nowMs - waiter.sinceMs >= this.#times[held.name.type].acquireTimeoutMs) {
          all.push({ taskId: waiter.taskId, lock: held.name, ownerTaskId: held.taskId });
        }
      }
    }
    return all;
  }

  /** Returns the held locks sorted by type and resource. */
  list(): HeldLock[] {
    return [...this.#held.values()]
      .map((held) => ({
        ...held.name,
        taskId: held.taskId,
        grantedAtMs: held.grantedAtMs,
        deadlineAtMs: held.renewedAtMs + this.#times[held.name.type].deadlineMs,
        waitingTaskIds: held.waiters.map((waiter) => waiter.taskId),
      }))
      .sort(compareLocks);
  }

  #takeOrWait(taskId: number, lock: LockName, nowMs: number): boolean {
    const held = this.#held.get(keyOf(lock));
    if (held === undefined) {
      this.#held.set(keyOf(lock), { name: lock, taskId, grantedAtMs: nowMs, renewedAtMs: nowMs, waiters: [] });
      this.#noteHeld(taskId, lock);
      return true;
    }
    if (!this.#waitsFor.has(taskId)) {
      held.waiters.push({ taskId, sinceMs: nowMs });
      this.#waitsFor.set(taskId, keyOf(lock));
    }
    return false;
  }

  #noteHeld(taskId: number, lock: LockName): void {
    const mine = this.#ofTask.get(taskId);
    if (mine === undefined) this.#ofTask.set(taskId, [lock]);
    else mine.push(lock);
  }

  #give(taskId: number, locks: readonly LockName[], nowMs: number): number[] {
    const granted: number[] = [];
    for (const lock of locks) {
      const held = this.#held.get(keyOf(lock)) as Held;
      const next = held.waiters.shift();
      if (next === undefined) {
        this.#held.delete(keyOf(lock));
        continue;
      }
      held.taskId = next.taskId;
      held.grantedAtMs = nowMs;
      held.renewedAtMs = nowMs;
      this.#waitsFor.delete(next.taskId);
      this.#noteHeld(next.taskId, lock);
      granted.push(next.taskId);
    }
    const kept = (this.#ofTask.get(taskId) ?? []).filter((lock) => !locks.includes(lock));
    if (kept.length === 0) this.#ofTask.delete(taskId);
    else this.#ofTask.set(taskId, kept);
    return granted;
  }

  #stopWaiting(taskId: number): void {
    const key = this.#waitsFor.get(taskId);
    if (key === undefined) return;
    this.#waitsFor.delete(taskId);
    const waiters = this.#held.get(key)?.waiters ?? [];
    const index = waiters.findIndex((waiter) => waiter.taskId === taskId);
    if (index >= 0) waiters.splice(index, 1);
  }
}
