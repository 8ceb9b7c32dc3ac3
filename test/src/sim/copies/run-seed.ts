import { createHash } from "node:crypto";
import type { SeedResult } from "../seed/seed-result.js";
import { Violation } from "../seed/violation.js";
import { SimulatedCopies } from "./world.js";

/** Runs one seed of the simulator of copies. The same seed and steps give the same result. */
export function runCopySeed(seed: number, steps: number, isTraced = true): SeedResult {
  const world = new SimulatedCopies(seed, isTraced);
  let violation: string | undefined;
  try {
    world.run(steps);
  } catch (error) {
    if (!(error instanceof Violation)) throw error;
    violation = error.message;
  }
  const hash = createHash("sha256").update(world.lines.join("\n")).digest("hex").slice(0, 16);
  return { seed, hash, simulatedMs: world.timeline.nowMs, violation, lines: world.lines, done: world.watch.done };
}
