import { CancelledError, TimeoutError } from "@diskmesh/domain";
import { DURATION_BUCKETS_SECONDS, metric } from "@diskmesh/metrics";

const DRIVER = "a driver of the config, at most 50: its name, or its package until it has loaded";
const OUTCOMES = ["done", "failed", "timeout", "cancelled"] as const;

/** Metrics of the drivers of an agent or a leading director. */
export const driverMetrics = {
  up: metric({
    kind: "gauge",
    name: "diskmesh.driver.up",
    unit: "1",
    description: "1 while a driver's methods can be called; 0 while it starts or has failed.",
    labels: { driver: DRIVER },
  }),
  ends: metric({
    kind: "observed counter",
    name: "diskmesh.driver.restarts",
    unit: "{restart}",
    description: "Ends of a driver's process, after each of which it is started again.",
    labels: { driver: DRIVER },
  }),
  calls: metric({
    kind: "histogram",
    name: "diskmesh.driver.call.duration",
    unit: "s",
    description:
      "Duration of calls of a driver's methods, by their outcome: timeout is beyond the method's time limit.",
    labels: { driver: DRIVER, outcome: OUTCOMES },
    // Methods take up to hours.
    buckets: [...DURATION_BUCKETS_SECONDS, 300, 900, 3_600],
  }),
};

/** Returns the outcome of a call that failed with the error. */
export function outcomeOf(error: unknown): (typeof OUTCOMES)[number] {
  if (error instanceof TimeoutError) return "timeout";
  return error instanceof CancelledError ? "cancelled" : "failed";
}
