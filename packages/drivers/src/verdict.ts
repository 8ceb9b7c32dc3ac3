import type { Smart } from "./smart.js";

/** Beyond any of these a drive is about to fail. */
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

/** Why a drive is not to be relied on much longer; undefined for no reason. `latenciesMs` are those of the last probes. */
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
  // One slow read is no sign: something else may have been in its way.
  const middle = [...latenciesMs].sort((a, b) => a - b)[Math.floor(latenciesMs.length / 2)];
  if (middle !== undefined && middle > thresholds.probeLatencyMs)
    reasons.push(`half of the last ${latenciesMs.length} reads took more than ${thresholds.probeLatencyMs} ms`);
  return reasons.length === 0 ? undefined : reasons.join("; ");
}
