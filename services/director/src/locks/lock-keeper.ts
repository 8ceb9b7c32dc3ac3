import type { Clock } from "@diskmesh/service";
import {
  type GivenUp,
  type HeldLock,
  type LockName,
  type LockOwner,
  LockTable,
  type LockTimes,
  type LockType,
  type ShownLock,
} from "./locks.js";

export interface LockKeeperOptions {
  readonly times: Readonly<Record<LockType, LockTimes>>;
  readonly clock: Clock;
  /** Called with the tasks that were granted a lock they waited for. */
  readonly onGranted: (taskIds: readonly number[]) => void;
}

/** A lane's pending wait for a lock. */
interface LaneWait {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/**
 * The locks of a lane: a part of a task that runs concurrently with the task's other lanes and holds locks in addition
 * to the task's locks.
 */
export interface LaneLocks {
  /**
   * Acquires exactly these locks. "acquired" means that the caller must re-read what it read before; "unchanged" means
   * that the lane held the locks all along.
   */
  settle(wanted: readonly LockName[], signal: AbortSignal): Promise<"unchanged" | "acquired">;
  renew(): void;
  /** Transfers the lane's locks to a task at once, ahead of all waiters. */
  handOver(taskId: number): void;
  release(): void;
}

export interface LockHolder extends LockOwner {
  readonly since: Date;
}

/** The task id of a lane without a task, e.g. for a call. */
export const NO_TASK = 0;

/** A task or lane whose wait for a lock has timed out. */
export interface GivenUpWait extends Omit<GivenUp, "ownerTaskId"> {
  readonly owner: LockOwner;
  /** Fails the lane's wait; undefined when the task itself waits. */
  readonly endLane: ((error: Error) => void) | undefined;
}

/**
 * The locks of this director, with times from its clock. A lane is stored in the LockTable as a task with a negative
 * id.
 */
export class LockKeeper {
  readonly #options: LockKeeperOptions;
  readonly #table: LockTable;
  readonly #taskOfLane = new Map<number, number>();
  readonly #whatOfLane = new Map<number, string>();
  readonly #laneWaits = new Map<number, LaneWait>();
  #lastLane = 0;

  constructor(options: LockKeeperOptions) {
    this.#options = options;
    this.#table = new LockTable(options.times);
  }

  /** Acquires exactly these locks for the task, or queues the task for them; see LockTable. */
  settle(taskId: number, wanted: readonly LockName[]): "unchanged" | "acquired" | "waiting" {
    const { outcome, granted } = this.#table.settle(taskId, wanted, this.#nowMs());
    this.#pass(granted);
    return outcome;
  }

  /**
   * Opens a lane of the task. With taskId NO_TASK the lane belongs to a call, and `what` names the call as lock owner
   * in errors and lock lists.
   */
  openLane(taskId: number, what = ""): LaneLocks {
    const lane = --this.#lastLane;
    this.#taskOfLane.set(lane, taskId);
    this.#whatOfLane.set(lane, what);
    return {
      settle: (wanted, signal) => this.#settleLane(lane, wanted, signal),
      renew: () => this.renew(lane),
      handOver: (to) => {
        this.#table.handOver(lane, to, this.#nowMs());
        this.#pass([to]);
      },
      release: () => {
        this.release(lane);
        this.#taskOfLane.delete(lane);
        this.#whatOfLane.delete(lane);
      },
    };
  }

  /** Releases all locks of a task except for these types, and cancels the task's wait. */
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
    this.#pass(this.#table.release(taskId, this.#nowMs()));
  }

  overdue(): HeldLock[] {
    return this.#table.overdue(this.#nowMs()).map((lock) => this.#ofTasks(lock));
  }

  givenUp(): GivenUpWait[] {
    return this.#table.givenUp(this.#nowMs()).map((given) => ({
      taskId: this.#taskOf(given.taskId),
      lock: given.lock,
      owner: this.#ownerOf(given.ownerTaskId),
      endLane: this.#laneWaits.get(given.taskId)?.reject,
    }));
  }

  /** Returns the id of the task or lane that holds the lock; undefined when the lock is free. */
  owner(lock: LockName): number | undefined {
    return this.#table.owner(lock);
  }

  /** Returns the lock's holder; undefined when the lock is free. */
  holder(lock: LockName): LockHolder | undefined {
    const owner = this.owner(lock);
    const sinceMs = this.#table.heldSinceMs(lock);
    if (owner === undefined || sinceMs === undefined) return undefined;
    const since = new Date(sinceMs + this.#wallOffsetMs());
    return { ...this.#ownerOf(owner), since };
  }

  /** Returns the held locks sorted by type and resource. */
  list(): ShownLock[] {
    const offsetMs = this.#wallOffsetMs();
    return this.#table.list().map((lock) => {
      const { type, resource, waitingTaskIds, grantedAtMs, deadlineAtMs } = this.#ofTasks(lock);
      const times = { sinceMs: grantedAtMs + offsetMs, deadlineAtMs: deadlineAtMs + offsetMs };
      return { type, resource, waitingTaskIds, ...this.#ownerOf(lock.taskId), ...times };
    });
  }

  async #settleLane(lane: number, wanted: readonly LockName[], signal: AbortSignal): Promise<"unchanged" | "acquired"> {
    for (let waited = false; ; waited = true) {
      signal.throwIfAborted();
      const outcome = this.settle(lane, wanted);
      if (outcome !== "waiting") return waited ? "acquired" : outcome;
      await this.#whenGranted(lane, signal);
    }
  }

  async #whenGranted(lane: number, signal: AbortSignal): Promise<void> {
    let stop = () => {};
    try {
      await new Promise<void>((resolve, reject) => {
        stop = () => reject(signal.reason);
        signal.addEventListener("abort", stop);
        this.#laneWaits.set(lane, { resolve, reject });
      });
    } finally {
      signal.removeEventListener("abort", stop);
      this.#laneWaits.delete(lane);
    }
  }

  /** Wakes the lanes and tasks that were granted a lock. */
  #pass(granted: readonly number[]): void {
    for (const owner of granted) this.#laneWaits.get(owner)?.resolve();
    this.#options.onGranted(granted.filter((owner) => !this.#taskOfLane.has(owner)));
  }

  #ownerOf(owner: number): LockOwner {
    return { taskId: this.#taskOf(owner), what: this.#whatOfLane.get(owner) ?? "" };
  }

  #taskOf(owner: number): number {
    return this.#taskOfLane.get(owner) ?? owner;
  }

  #ofTasks(lock: HeldLock): HeldLock {
    const waiting = lock.waitingTaskIds.map((owner) => this.#taskOf(owner));
    // A task is listed once although several of its lanes may wait. Lanes without a task are listed individually.
    const waitingTaskIds = waiting.filter((taskId, at) => taskId === NO_TASK || waiting.indexOf(taskId) === at);
    return { ...lock, taskId: this.#taskOf(lock.taskId), waitingTaskIds };
  }

  #wallOffsetMs(): number {
    return this.#options.clock.nowMs() - this.#options.clock.monotonicMs();
  }

  // Monotonic, because a jump of the wall clock must not end a task.
  #nowMs(): number {
    return this.#options.clock.monotonicMs();
  }
}
