import type { Mutation } from "./mutation.js";
import { runSeed, type SeedResult } from "./run-seed.js";
import { scenarioOf } from "./scenarios.js";

/** Runs seeds one after another in this process, and stops at the first that breaks a promise. */
export async function runInOrder(options: {
  readonly from: number;
  readonly to: number;
  readonly steps: number;
  readonly trace: boolean;
  readonly mutation: Mutation | undefined;
}): Promise<void> {
  const { from, to, steps, trace, mutation } = options;
  const made = mutation === undefined ? "" : ` with ${mutation.name} (${mutation.mistake})`;
  for (let seed = from; seed <= to; seed++) {
    if (mutation?.scenario !== undefined && scenarioOf(seed)?.name !== mutation.scenario) continue;
    const result = await runSeed(seed, steps);
    if (trace || (result.violation !== undefined && mutation === undefined)) printTrace(result);
    if (result.violation === undefined) continue;
    process.stdout.write(`seed ${seed}${made}, ${steps} steps: VIOLATION: ${result.violation}\n`);
    if (mutation !== undefined) process.stdout.write(`found after ${seed - from + 1} seeds\n`);
    process.exitCode = 1;
    return;
  }
  process.stdout.write(`seeds ${from}..${to}${made}, ${steps} steps: no violation\n`);
}

export function printTrace({ lines, hash }: SeedResult): void {
  process.stdout.write(`step time(ms) what\n${lines.join("\n")}\ntrace hash ${hash}\n`);
}
