import { createHash } from "node:crypto";
import { settled } from "./timeline.js";
import { Violation } from "./violation.js";
import { SimulatedWorld } from "./world.js";

export interface SeedResult {
  readonly seed: number;
  /** Hash of all lines of the trace. */
  readonly hash: string;
  readonly simulatedMs: number;
  /** Broken promise; undefined for none. */
  readonly violation: string | undefined;
  readonly lines: readonly string[];
  /** Number of parts that were moved by a copy between agents, and of those that were moved in use. */
  readonly copied: number;
  readonly mirrored: number;
}

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
  const { copied, mirrored } = world.moves;
  return { seed, hash, simulatedMs: world.timeline.nowMs, violation, lines: world.lines, copied, mirrored };
}
