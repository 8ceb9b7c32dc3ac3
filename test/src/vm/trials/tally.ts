let counts: Record<string, number> = {};

/** Adds to a count of the running test. */
export function count(what: string, by = 1): void {
  counts[what] = (counts[what] ?? 0) + by;
}

/** Notes the highest value of the running test. Its name begins with `longest`. */
export function noteLongest(what: `longest ${string}`, value: number): void {
  counts[what] = Math.max(counts[what] ?? 0, Math.round(value));
}

/** Returns what was counted since the last call. */
export function takeTally(): Readonly<Record<string, number>> {
  const taken = counts;
  counts = {};
  return taken;
}
