import { counterOf } from "@diskmesh/metrics";
import { registryMetrics } from "./declarations.js";

/** Counts the end of a try of a move. */
export function noteMove(outcome: "done" | "failed", bytes = 0): void {
  counterOf(registryMetrics.moveTries).add(1, { outcome });
  counterOf(registryMetrics.movedBytes).add(bytes);
}
