import { ResourceExhaustedError } from "@diskmesh/domain";

export interface CallLimits {
  /** Calls of one CPI that run at once. */
  readonly maxConcurrentCalls: number;
  /** Calls of one CPI that wait for their turn. */
  readonly maxWaitingCalls: number;
}

/** Lets so many calls of one CPI run at once; the others wait in the order in which they came. */
export class CallLimit {
  #running = 0;
  readonly #waiting = new Set<() => void>();

  constructor(
    private readonly cpi: string,
    private readonly limits: CallLimits,
  ) {}

  async run<Result>(signal: AbortSignal, work: () => Promise<Result>): Promise<Result> {
    await this.#enter(signal);
    try {
      return await work();
    } finally {
      this.#leave();
    }
  }

  async #enter(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#running < this.limits.maxConcurrentCalls) {
      this.#running++;
      return;
    }
    const { maxWaitingCalls } = this.limits;
    if (this.#waiting.size >= maxWaitingCalls)
      throw new ResourceExhaustedError(
        `${maxWaitingCalls} calls of CPI ${this.cpi} wait already (executables.maxWaitingCalls): try again later`,
        { about: { cpi: this.cpi }, retryAfterMs: 1_000 },
      );
    await new Promise<void>((resolve, reject) => {
      const abort = () => {
        this.#waiting.delete(next);
        reject(signal.reason);
      };
      const next = () => {
        signal.removeEventListener("abort", abort);
        resolve();
      };
      signal.addEventListener("abort", abort);
      this.#waiting.add(next);
    });
  }

  #leave(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#running--;
      return;
    }
    // The place goes to the next one, so that none who comes now takes it.
    this.#waiting.delete(next);
    next();
  }
}
