/** Locks are always taken in this order of types, and by resource within one type: so nobody waits in a circle. */
const LOCK_TYPES = ["deployment", "stemcell", "instance", "disk", "node"] as const;
export type LockType = (typeof LOCK_TYPES)[number];

export interface LockName {
  readonly type: LockType;
  readonly resource: string;
}

/** Returns the lock's name for people. */
export function lockName({ type, resource }: LockName): string {
  return `${type}:${resource}`;
}

export interface LockTimes {
  /** So long after its owner's last sign of life the owner is stopped. The lock stays held until its work has ended. */
  readonly deadlineMs: number;
  /** After that a task that waits gives up. */
  readonly acquireTimeoutMs: number;
}

/** One lock that is held. */
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
  /** When it was granted, or its owner last gave a sign of life. */
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

/** A lock for people: its times by the wall clock. */
export interface ShownLock extends Omit<HeldLock, "grantedAtMs" | "deadlineAtMs">, LockOwner {
  /** Since when its owner has it. */
  readonly sinceMs: number;
  readonly deadlineAtMs: number;
}

/** The owner in a sentence; a task that is known with what it does. */
export function ownerText({ taskId, what }: LockOwner, description?: string): string {
  if (what !== "") return what;
  return description === undefined ? `task ${taskId}` : `task ${taskId} (${description})`;
}

/** A task that waited too long, for which lock, and who has it. */
export interface GivenUp {
  readonly taskId: number;
  readonly lock: LockName;
  readonly ownerTaskId: number;
}

export interface Settled {
  /**
   * unchanged: the task held exactly these locks before; what it read while it held them is still true.
   * acquired: it holds them now, and must read again what it read before.
   * waiting: it holds some, waits for the next, and is granted it in its turn.
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
 * Holders and waiters of all locks, first in first served. It is in memory only: a new director has no running owners.
 * It has no clock; times are arguments.
 */
export class LockTable {
  readonly #times: Readonly<Record<LockType, LockTimes>>;
  readonly #held = new Map<string, Held>();
  /** In the order in which they were taken. */
  readonly #ofTask = new Map<number, LockName[]>();
  readonly #waitsFor = new Map<number, string>();

  constructor(times: Readonly<Record<LockType, LockTimes>>) {
    this.#times = times;
  }

  get size(): number {
    return this.#held.size;
  }

  /**
   * Makes the task hold exactly these locks, in their order. What it holds in common with them from the first on, it
   * keeps; the rest it gives back first, since taking an earlier lock while holding a later one could close a circle.
   */
  settle(taskId: number, wanted: readonly LockName[], nowMs: number): Settled {
    for (const [index, lock] of wanted.entries()) {
      const previous = wanted[index - 1];
      if (previous !== undefined && compareLocks(previous, lock) >= 0)
        throw new TypeError(`${keyOf(lock)} is out of the order of locks`);
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

  /** Gives back all locks of a task, and its place in any queue. Returns the tasks that got one. */
  release(taskId: number, nowMs: number): number[] {
    this.#stopWaiting(taskId);
    return this.#give(taskId, this.#ofTask.get(taskId) ?? [], nowMs);
  }

  /** In the order of locks. */
  heldBy(taskId: number): readonly LockName[] {
    return this.#ofTask.get(taskId) ?? [];
  }

  /** Undefined when nobody holds it. */
  owner(lock: LockName): number | undefined {
    return this.#held.get(keyOf(lock))?.taskId;
  }

  /** Since when its owner has it; undefined when nobody holds it. */
  heldSinceMs(lock: LockName): number | undefined {
    return this.#held.get(keyOf(lock))?.grantedAtMs;
  }

  /** Gives all that one holds to another, who leaves the line if it waits there. Others keep their places. */
  handOver(from: number, to: number, nowMs: number): void {
    this.#stopWaiting(to);
    for (const lock of this.#ofTask.get(from) ?? []) {
      Object.assign(this.#held.get(keyOf(lock)) as Held, { taskId: to, grantedAtMs: nowMs, renewedAtMs: nowMs });
      this.#noteHeld(to, lock);
    }
    this.#ofTask.delete(from);
  }

  /** The task is at work still: the deadlines of its locks are put off. */
  renew(taskId: number, nowMs: number): void {
    for (const lock of this.#ofTask.get(taskId) ?? []) (this.#held.get(keyOf(lock)) as Held).renewedAtMs = nowMs;
  }

  /** Locks whose deadline is past. They stay held. */
  overdue(nowMs: number): HeldLock[] {
    return this.list().filter((lock) => nowMs >= lock.deadlineAtMs);
  }

  /** Tasks that have waited for their lock too long. They still wait, until released. */
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

  /** In order of type and resource. */
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
