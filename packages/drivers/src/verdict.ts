import type { Smart } from "./smart.js";

/** A drive with a value above any of these limits is about to fail. */
interface Thresholds {
  readonly reallocatedSectors: number;
  readonly pendingSectors: number;
  readonly temperatureCelsius: number;
  readonly percentageUsed: number;
  readonly mediaErrors: number;
  readonly probeLatencyMs: number;
}

const NAMES: readonly (readonly [keyof Smart & keyof Thresholds, string])[] = [
  ["reallocatedSectors", "reallocated sectors"],
  ["pendingSectors", "sectors that wait to be reallocated"],
  ["temperatureCelsius", "degrees Celsius"],
  ["percentageUsed", "percent of its life used"],
  ["mediaErrors", "media errors"],
];

/**
 * Returns the reasons to expect a drive's failure, as one text; undefined when there are none. `latenciesMs` are the
 * latest probes.
 */
export function verdictOf(
  smart: Partial<Smart> | undefined,
  latenciesMs: readonly number[],
  thresholds: Thresholds,
): string | undefined {
  const reasons = NAMES.flatMap(([name, words]) => {
    const value = smart?.[name];
    return value !== undefined && value > thresholds[name] ? [`${value} ${words}, more than ${thresholds[name]}`] : [];
  });
  if (smart?.passed === false) reasons.unshift("the drive itself says that it is failing");
  // Uses the median, because a single slow read may have been delayed by other I/O.
  const middle = [...latenciesMs].sort((a, b) => a - b)[Math.floor(latenciesMs.length / 2)];
  if (middle !== undefined && middle > thresholds.probeLatencyMs)
    reasons.push(`half of the last ${latenciesMs.length} reads took more than ${thresholds.probeLatencyMs} ms`);
  return reasons.length === 0 ? undefined : reasons.join("; ");
}
