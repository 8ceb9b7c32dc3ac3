import type { Failure } from "./failure.js";
import { runAnySeed, type SimulationName } from "./run-any-seed.js";
import { sumOf } from "./seed/seed-result.js";

/** Seeds for one worker process. */
export interface ChunkOrder {
  readonly simulation: SimulationName;
  readonly from: number;
  readonly to: number;
  readonly steps: number;
}

export interface ChunkReport {
  readonly simulatedMs: number;
  readonly done: Readonly<Record<string, number>>;
  readonly failed: readonly Failure[];
}

process.on("message", async ({ simulation, from, to, steps }: ChunkOrder) => {
  const failed: Failure[] = [];
  let simulatedMs = 0;
  let done: ChunkReport["done"] = {};
  for (let seed = from; seed <= to; seed++) {
    const result = await runAnySeed(simulation, seed, steps);
    simulatedMs += result.simulatedMs;
    done = sumOf(done, result.done);
    if (result.violation !== undefined) failed.push({ simulation, seed, steps, violation: result.violation });
  }
  process.send?.({ simulatedMs, done, failed } satisfies ChunkReport);
});
