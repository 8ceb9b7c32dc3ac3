import { messageOf } from "@diskmesh/domain";

interface Try {
  readonly what: string;
  readonly sinceMs: number;
  lastError: string;
}

const tries = new Set<Try>();

/** Tells, while `work` goes on, what it tries and since when; `work` says what went wrong last. */
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

/** Returns a line for each call that has been tried for so long. */
export function triedFor(leastMs: number): string[] {
  const nowMs = performance.now();
  return [...tries]
    .filter(({ sinceMs }) => nowMs - sinceMs >= leastMs)
    .map(({ what, sinceMs, lastError }) => {
      const why = lastError === "" ? "" : `: ${lastError.slice(0, 300)}`;
      return `${what}, for ${Math.round((nowMs - sinceMs) / 1_000)} s${why}`;
    });
}
