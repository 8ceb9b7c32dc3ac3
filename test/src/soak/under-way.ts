import { messageOf } from "@diskmesh/domain";

interface Try {
  readonly what: string;
  readonly sinceMs: number;
  lastError: string;
}

const tries = new Set<Try>();

/**
 * Registers `work` under a name while it runs, for reports about slow work. `work` passes its last error to its
 * argument.
 */
export async function underWay<T>(what: string, work: (wentWrong: (error: unknown) => void) => Promise<T>): Promise<T> {
  const one: Try = { what, sinceMs: performance.now(), lastError: "" };
  tries.add(one);
  try {
    return await work((error) => {
      one.lastError = messageOf(error);
    });
  } finally {
    tries.delete(one);
  }
}

/** Returns a line for each registered work that has run for at least `leastMs`. */
export function triedFor(leastMs: number): string[] {
  const nowMs = performance.now();
  return [...tries]
    .filter(({ sinceMs }) => nowMs - sinceMs >= leastMs)
    .map(({ what, sinceMs, lastError }) => {
      const why = lastError === "" ? "" : `: ${lastError.slice(0, 300)}`;
      return `${what}, for ${Math.round((nowMs - sinceMs) / 1_000)} s${why}`;
    });
}
