import { DomainError, NotImplementedError } from "@diskmesh/domain";
import { DURATION_BUCKETS_SECONDS, histogramOf, metric } from "@diskmesh/metrics";
import type { CpiMethod } from "../model/methods.js";

const OUTCOMES = ["done", "not_supported", "not_done", "unknown"] as const;

export const dispatcherMetrics = {
  calls: metric({
    kind: "histogram",
    name: "diskmesh.cpi.call.duration",
    unit: "s",
    description:
      "Duration of CPI calls, by CPI, method and outcome: done; not_supported (the CPI lacks the method); not_done " +
      "(failed without effect); unknown (effect unknown).",
    labels: {
      cpi: "the CPIs of the cpi-configs and of the dispatcher's own config",
      method: "the methods of the CPI contract",
      outcome: OUTCOMES,
    },
    buckets: [...DURATION_BUCKETS_SECONDS, 300, 900],
  }),
};

/** Runs a CPI call and records its duration and outcome. */
export async function measured<Result>(cpi: string, method: CpiMethod, call: () => Promise<Result>): Promise<Result> {
  const startedMs = performance.now();
  const note = (outcome: (typeof OUTCOMES)[number]): void =>
    histogramOf(dispatcherMetrics.calls).record((performance.now() - startedMs) / 1_000, { cpi, method, outcome });
  try {
    const result = await call();
    note("done");
    return result;
  } catch (error) {
    if (error instanceof NotImplementedError) note("not_supported");
    else note(error instanceof DomainError ? error.outcome : "unknown");
    throw error;
  }
}
