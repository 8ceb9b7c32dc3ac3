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
  /** These tasks were granted a lock they waited for. */
  readonly onGranted: (taskIds: readonly number[]) => void;
}

/** Where one lane of a task waits for a lock. */
interface LaneWait {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** Locks that one lane of a task's work holds, within those of the task, while other lanes hold others. */
export interface LaneLocks {
  /** Holds exactly these locks; what was read before is to be read again unless they were held already. */
  settle(wanted: readonly LockName[], signal: AbortSignal): Promise<"unchanged" | "acquired">;
  renew(): void;
  /** Gives them to a task, at once and before anybody who waits. */
  handOver(taskId: number): void;
  release(): void;
}

/** The holder of a lock. */
export interface LockHolder extends LockOwner {
  readonly since: Date;
}

/** The task that a lane belongs to which belongs to none. */
export const NO_TASK = 0;

/** One that waited too long: a task, or the lane of one. */
export interface GivenUpWait extends Omit<GivenUp, "ownerTaskId"> {
  readonly owner: LockOwner;
  /** Undefined for the task itself. */
  readonly endLane: ((error: Error) => void) | undefined;
}

/** The locks of this director, on its clock. To the table a lane is a task, of a number below 0. */
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

  /** Makes the task hold exactly these locks, or wait for them; see LockTable. */
  settle(taskId: number, wanted: readonly LockName[]): "unchanged" | "acquired" | "waiting" {
    const { outcome, granted } = this.#table.settle(taskId, wanted, this.#nowMs());
    this.#pass(granted);
    return outcome;
  }

  /**
   * Opens a lane, which may hold locks until it is released. `what` names it to others where there is no task to ask.
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

  /** Undefined when nobody holds it. */
  owner(lock: LockName): number | undefined {
    return this.#table.owner(lock);
  }

  /** Undefined when nobody holds it. */
  holder(lock: LockName): LockHolder | undefined {
    const owner = this.owner(lock);
    const sinceMs = this.#table.heldSinceMs(lock);
    if (owner === undefined || sinceMs === undefined) return undefined;
    const since = new Date(sinceMs + this.#wallOffsetMs());
    return { ...this.#ownerOf(owner), since };
  }

  /** In order of type and resource. */
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

  /** Tells who was granted a lock. */
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
    // A task may wait in several lanes; each call is one of its own.
    const waitingTaskIds = waiting.filter((taskId, at) => taskId === NO_TASK || waiting.indexOf(taskId) === at);
    return { ...lock, taskId: this.#taskOf(lock.taskId), waitingTaskIds };
  }

  #wallOffsetMs(): number {
    return this.#options.clock.nowMs() - this.#options.clock.monotonicMs();
  }

  // The wall clock may jump, and a jump must not end a task.
  #nowMs(): number {
    return this.#options.clock.monotonicMs();
  }
}
