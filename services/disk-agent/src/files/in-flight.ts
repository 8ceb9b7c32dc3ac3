import type { Clock } from "@diskmesh/service";
import { overlaps, type Run } from "../model/runs.js";

interface Operation {
  readonly sessionNumber: number;
  /** Run of the session, whichever of its bytes the operation is about. */
  readonly run: Run;
  readonly sinceMs: number;
}

/** Operations for which an order waits. */
export interface Waiting {
  /** Duration of the oldest operation, in ms. */
  readonly forMs: number;
  /** Reads, writes and flushes that the operating system has not completed. */
  readonly inFlightOperations: number;
}

/** Session number of reads that belong to no session. They change nothing, so they delay a close but no grant. */
export const NO_SESSION = Number.POSITIVE_INFINITY;

/** Session number of the agent's writes beside a label, which belong to no session: every grant of their bytes waits for them. */
export const BELOW_SESSIONS = 0;

/** Operations of one device that the operating system has not completed. */
export class InFlight {
  readonly #clock: Clock;
  /** Oldest operation first. */
  readonly #operations = new Set<Operation>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts an operation as begun; returns the function to call when it has ended, which returns its duration in ms. */
  begin(sessionNumber: number, run: Run): () => number {
    const operation = { sessionNumber, run, sinceMs: this.#clock.monotonicMs() };
    this.#operations.add(operation);
    return () => {
      this.#operations.delete(operation);
      return this.#clock.monotonicMs() - operation.sinceMs;
    };
  }

  get count(): number {
    return this.#operations.size;
  }

  /** Returns whether all operations submitted under lower sessions of the run's bytes have ended. */
  isQuietBelow(sessionNumber: number, run: Run): boolean {
    for (const operation of this.#operations) if (isBelow(operation, sessionNumber, run)) return false;
    return true;
  }

  /** Monotonic time at which the oldest operation began; undefined when nothing is in flight. */
  get oldestSinceMs(): number | undefined {
    for (const { sinceMs } of this.#operations) return sinceMs;
    return undefined;
  }

  /** Returns the operations in flight under lower sessions of the run's bytes. */
  waitingBelow(sessionNumber: number, run: Run): Waiting {
    const lower = [...this.#operations].filter((operation) => isBelow(operation, sessionNumber, run));
    const nowMs = this.#clock.monotonicMs();
    return { forMs: nowMs - (lower[0]?.sinceMs ?? nowMs), inFlightOperations: lower.length };
  }
}

function isBelow(operation: Operation, sessionNumber: number, run: Run): boolean {
  return operation.sessionNumber < sessionNumber && overlaps(operation.run, run);
}
