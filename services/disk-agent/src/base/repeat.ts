import { type Logger, messageOf } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";

/** Repeats an action until the signal aborts. A failed run is logged and does not end the loop. */
export async function repeat(options: {
  readonly what: string;
  readonly everyMs: number;
  readonly work: () => unknown;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}): Promise<void> {
  const { what, everyMs, work, clock, log, signal } = options;
  while (!signal.aborted) {
    try {
      await clock.sleep(everyMs, signal);
      await work();
    } catch (error) {
      if (!signal.aborted) log.error({ error: messageOf(error) }, `${what} failed`);
    }
  }
}
