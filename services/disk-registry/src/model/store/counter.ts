/** Skipped values of a counter: this registry issued none of them, but another one may have. */
export interface Gap {
  /** Lower end of the gap, exclusive. */
  readonly above: number;
  readonly upTo: number;
  /** Time of the agent's report that caused the gap; absent when a restore or an operator's RaiseNumbers caused it. */
  readonly reportedAtMs?: number | undefined;
}

export interface Counter {
  readonly name: CounterName;
  /** Last value issued or skipped. */
  readonly value: number;
  /** Gaps in ascending order; their number is limited. */
  readonly gaps?: readonly Gap[] | undefined;
}

export type CounterName = "device_generation" | "session_number";

/** Maximum gaps kept per counter; the oldest are dropped. Agents' reports add at most one an hour. */
const MAX_GAPS = 64;

/** Returns the counter with the gap added and its value at the gap's end. */
export function withGap(counter: Counter, gap: Gap): Counter {
  return { ...counter, value: gap.upTo, gaps: [...(counter.gaps ?? []), gap].slice(-MAX_GAPS) };
}
