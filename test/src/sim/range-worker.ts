import type { Failure } from "./failure.js";
import { runSeed } from "./run-seed.js";

/** Seeds for one worker process. */
export interface ChunkOrder {
  readonly from: number;
  readonly to: number;
  readonly steps: number;
}

export interface ChunkReport {
  readonly simulatedMs: number;
  readonly copied: number;
  readonly mirrored: number;
  readonly failed: readonly Failure[];
}

process.on("message", async ({ from, to, steps }: ChunkOrder) => {
  const failed: Failure[] = [];
  let [simulatedMs, copied, mirrored] = [0, 0, 0];
  for (let seed = from; seed <= to; seed++) {
    const result = await runSeed(seed, steps);
    simulatedMs += result.simulatedMs;
    copied += result.copied;
    mirrored += result.mirrored;
    if (result.violation !== undefined) failed.push({ seed, steps, violation: result.violation });
  }
  process.send?.({ simulatedMs, copied, mirrored, failed } satisfies ChunkReport);
});
