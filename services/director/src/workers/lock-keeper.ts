import type { Clock } from "@diskmesh/service";
import {
  type GivenUp,
  type HeldLock,
  type LockName,
  LockTable,
  type LockTimes,
  type LockType,
} from "../model/locks.js";

export interface LockKeeperOptions {
  readonly times: Readonly<Record<LockType, LockTimes>>;
  readonly clock: Clock;
  /** These tasks were granted a lock they waited for. */
  readonly onGranted: (taskIds: readonly number[]) => void;
}

/** A lock for people: its deadline by the wall clock. */
export interface ShownLock extends HeldLock {
  readonly deadline: Date;
}

/** The locks of this director, on its clock. */
export class LockKeeper {
  readonly #options: LockKeeperOptions;
  readonly #table: LockTable;

  constructor(options: LockKeeperOptions) {
    this.#options = options;
    this.#table = new LockTable(options.times);
  }

  /** Makes the task hold exactly these locks, or wait for them; see LockTable. */
  settle(taskId: number, wanted: readonly LockName[]): "unchanged" | "acquired" | "waiting" {
    const { outcome, granted } = this.#table.settle(taskId, wanted, this.#nowMs());
    this.#options.onGranted(granted);
    return outcome;
  }

  /** Gives back all locks of a task but those of these types, and its place in any queue. */
  keep(taskId: number, types: readonly LockType[]): void {
    this.settle(
      taskId,
      this.#table.heldBy(taskId).filter(({ type }) => types.includes(type)),
    );
  }

  renew(taskId: number): void {
    this.#table.renew(taskId, this.#nowMs());
  }

  release(taskId: number): void {
    this.#options.onGranted(this.#table.release(taskId, this.#nowMs()));
  }

  overdue(): HeldLock[] {
    return this.#table.overdue(this.#nowMs());
  }

  givenUp(): GivenUp[] {
    return this.#table.givenUp(this.#nowMs());
  }

  /** Undefined when nobody holds it. */
  owner(lock: LockName): number | undefined {
    return this.#table.owner(lock);
  }

  /** In order of type and resource. */
  list(): ShownLock[] {
    const { clock } = this.#options;
    const offsetMs = clock.nowMs() - clock.monotonicMs();
    return this.#table.list().map((lock) => ({ ...lock, deadline: new Date(lock.deadlineAtMs + offsetMs) }));
  }

  // The wall clock may jump, and a jump must not end a task.
  #nowMs(): number {
    return this.#options.clock.monotonicMs();
  }
}
