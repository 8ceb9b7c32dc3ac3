import { createHash } from "node:crypto";
import type { SeedResult } from "./seed/seed-result.js";
import { settled } from "./seed/timeline.js";
import { Violation } from "./seed/violation.js";
import { SimulatedWorld } from "./world.js";

/** Runs one seed from an empty fleet until everything has converged. The same seed and steps give the same result. */
export async function runSeed(seed: number, steps: number): Promise<SeedResult> {
  const world = new SimulatedWorld(seed);
  const failed = (reason: unknown): void =>
    world.violation(`unhandled: ${reason instanceof Error ? (reason.stack ?? reason.message) : String(reason)}`);
  process.on("unhandledRejection", failed);
  let violation: string | undefined;
  try {
    await world.run(steps);
  } catch (error) {
    if (!(error instanceof Violation)) throw error;
    violation = error.message;
    // Lets work in progress fail now rather than in the next run.
    await settled();
  } finally {
    process.off("unhandledRejection", failed);
  }
  const hash = createHash("sha256").update(world.lines.join("\n")).digest("hex").slice(0, 16);
  const { copied, mirrored, goneOn } = world.moves;
  const done = { "parts were moved by copies between agents": copied, "in use": mirrored, "tries went on": goneOn };
  return { seed, hash, simulatedMs: world.timeline.nowMs, violation, lines: world.lines, done };
}
