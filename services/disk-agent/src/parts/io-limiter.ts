import type { IoLimits } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import { type IoBudget, type IoDirection, limited, spend, UNLIMITED } from "../model/io-budget.js";

interface Waiter {
  readonly sizeBytes: number;
  readonly admit: () => void;
}

/** Operations of one direction that wait, in the order in which they came. */
interface Queue {
  readonly waiters: Waiter[];
  /** Cancels the timer of the first waiter. */
  cancel: () => void;
}

/** Longest time of one timer, because timers overflow after 24 days. */
const MAX_TIMER_MS = 60_000;

/** Delays the operations of a disk so that they keep to its limits. */
export class IoLimiter {
  readonly #clock: Pick<Clock, "monotonicMs" | "after">;
  readonly #queues: Readonly<Record<IoDirection, Queue>> = {
    read: { waiters: [], cancel: () => {} },
    write: { waiters: [], cancel: () => {} },
  };
  #budget: IoBudget;

  constructor(clock: Pick<Clock, "monotonicMs" | "after">, limits: IoLimits | undefined) {
    this.#clock = clock;
    this.#budget = limited(UNLIMITED, limits, clock.monotonicMs());
  }

  /** Resolves once the operation may begin; returns undefined when it may at once. */
  admit(direction: IoDirection, sizeBytes: number): Promise<void> | undefined {
    const { waiters } = this.#queues[direction];
    if (waiters.length === 0 && this.#take(direction, sizeBytes) === 0) return undefined;
    return new Promise((admit) => {
      waiters.push({ sizeBytes, admit });
      if (waiters.length === 1) this.#admitWaiters(direction);
    });
  }

  /** Number of operations that wait. */
  get waiting(): number {
    return this.#queues.read.waiters.length + this.#queues.write.waiters.length;
  }

  /** Replaces the limits. Waiting operations keep to the new limits. */
  set(limits: IoLimits | undefined): void {
    this.#budget = limited(this.#budget, limits, this.#clock.monotonicMs());
    this.#admitWaiters("read");
    this.#admitWaiters("write");
  }

  /** Returns how long the operation must wait; takes its cost when that is 0. */
  #take(direction: IoDirection, sizeBytes: number): number {
    const { budget, waitMs } = spend(this.#budget, direction, sizeBytes, this.#clock.monotonicMs());
    this.#budget = budget;
    return waitMs;
  }

  #admitWaiters(direction: IoDirection): void {
    const queue = this.#queues[direction];
    queue.cancel();
    for (let first = queue.waiters[0]; first !== undefined; first = queue.waiters[0]) {
      const waitMs = this.#take(direction, first.sizeBytes);
      if (waitMs > 0) {
        queue.cancel = this.#clock.after(Math.min(waitMs, MAX_TIMER_MS), () => this.#admitWaiters(direction));
        return;
      }
      queue.waiters.shift();
      first.admit();
    }
  }
}
