import { histogramOf } from "@diskmesh/metrics";
import { registryMetrics } from "./declarations.js";

type Operation = "attach" | "detach" | "publish" | "change" | "unpublish";
type Phase = "queue" | "order" | "session" | "export" | "total";

/** Records the duration of a phase. */
export function notePhase(operation: Operation, phase: Phase, durationMs: number): void {
  histogramOf(registryMetrics.phase).record(Math.max(0, durationMs) / 1_000, { operation, phase });
}
