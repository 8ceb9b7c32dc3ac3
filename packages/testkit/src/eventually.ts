import { setTimeout as delay } from "node:timers/promises";

export interface EventuallyOptions {
  readonly timeoutMs?: number;
  readonly everyMs?: number;
}

/**
 * Calls `check` until it neither throws nor returns false, and returns what it returned. When the time is over it throws
 * what the last try threw.
 */
export async function eventually<Result>(
  check: () => Result | Promise<Result>,
  options: EventuallyOptions = {},
): Promise<Result> {
  const { timeoutMs = 5_000, everyMs = 20 } = options;
  const untilMs = performance.now() + timeoutMs;
  for (;;) {
    let failure: unknown;
    try {
      const result = await check();
      if (result !== false) return result;
      failure = new Error(`still false after ${timeoutMs} ms`);
    } catch (error) {
      failure = error;
    }
    if (performance.now() >= untilMs) throw failure;
    await delay(everyMs);
  }
}
