import type { Clock } from "@diskmesh/service";

interface Operation {
  readonly sessionNumber: number;
  readonly sinceMs: number;
}

/** What is waited for before something that is pending is done. */
export interface Waiting {
  /** How long the oldest of it has run. */
  readonly forMs: number;
  /** Reads, writes and flushes that the operating system has not answered. */
  readonly inFlightOperations: number;
}

/** Reads of nobody's session: they change nothing, so they hold up a close but no session. */
export const NO_SESSION = Number.POSITIVE_INFINITY;

/** What the operating system was asked of one device, and has not answered. */
export class InFlight {
  readonly #clock: Clock;
  /** The oldest first. */
  readonly #operations = new Set<Operation>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns what to call when it is answered. */
  begin(sessionNumber: number): () => void {
    const operation = { sessionNumber, sinceMs: this.#clock.monotonicMs() };
    this.#operations.add(operation);
    return () => this.#operations.delete(operation);
  }

  get count(): number {
    return this.#operations.size;
  }

  /** Whether all that was submitted under lower sessions has ended. */
  isQuietBelow(sessionNumber: number): boolean {
    for (const operation of this.#operations) if (operation.sessionNumber < sessionNumber) return false;
    return true;
  }

  /** By the monotonic clock; undefined when nothing is in flight. */
  get oldestSinceMs(): number | undefined {
    for (const { sinceMs } of this.#operations) return sinceMs;
    return undefined;
  }

  /** What is in flight under lower sessions. */
  waitingBelow(sessionNumber: number): Waiting {
    const lower = [...this.#operations].filter((operation) => operation.sessionNumber < sessionNumber);
    const nowMs = this.#clock.monotonicMs();
    return { forMs: nowMs - (lower[0]?.sinceMs ?? nowMs), inFlightOperations: lower.length };
  }
}
