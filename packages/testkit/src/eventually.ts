import { setTimeout as delay } from "node:timers/promises";

export interface EventuallyOptions {
  readonly timeoutMs?: number;
  /** Delay between attempts; by default a tenth of the time waited so far, within 5 to 50 ms. */
  readonly everyMs?: number;
}

/**
 * Calls `check` until it neither throws nor returns false, and returns its result. After the timeout it throws the
 * error of the last attempt.
 */
export async function eventually<Result>(
  check: () => Result | Promise<Result>,
  options: EventuallyOptions = {},
): Promise<Result> {
  const { timeoutMs = 120_000, everyMs } = options;
  const startedMs = performance.now();
  for (;;) {
    let failure: unknown;
    try {
      const result = await check();
      if (result !== false) return result;
      failure = new Error(`still false after ${timeoutMs} ms`);
    } catch (error) {
      failure = error;
    }
    const waitedMs = performance.now() - startedMs;
    if (waitedMs >= timeoutMs) throw failure;
    await delay(everyMs ?? Math.min(50, Math.max(5, waitedMs / 10)));
  }
}
