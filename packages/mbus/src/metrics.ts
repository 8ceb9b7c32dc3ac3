import { DURATION_BUCKETS_SECONDS, histogramOf, metric } from "@diskmesh/metrics";

/** Metrics of requests and replies between a director and agents. */
export const mbusMetrics = {
  requests: metric({
    kind: "histogram",
    name: "diskmesh.mbus.request.duration",
    unit: "s",
    description:
      "Duration of a director's requests to agents over NATS until the result is known, by method and outcome.",
    labels: { method: "the methods of the agent protocol", outcome: ["done", "failed"] },
    buckets: DURATION_BUCKETS_SECONDS,
  }),
};

/** Runs a request, and records its duration and outcome. */
export async function measured<Result>(method: string, request: () => Promise<Result>): Promise<Result> {
  const startedMs = performance.now();
  const note = (outcome: "done" | "failed"): void =>
    histogramOf(mbusMetrics.requests).record((performance.now() - startedMs) / 1_000, { method, outcome });
  try {
    const result = await request();
    note("done");
    return result;
  } catch (error) {
    note("failed");
    throw error;
  }
}
