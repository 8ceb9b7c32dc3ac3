import { historyOf, reasonOf } from "./failure.js";
import type { Mutation } from "./mutation.js";
import { switchOn, unreachedPlaces } from "./mutation-switch.js";
import { runAnySeed, type SimulationName, scenarioNameOf } from "./run-any-seed.js";
import type { SeedResult } from "./seed/seed-result.js";

/** Runs seeds one after another in this process, and stops at the first that breaks a promise. */
export async function runInOrder(options: {
  readonly from: number;
  readonly to: number;
  readonly steps: number;
  readonly trace: boolean;
  readonly mutation: Mutation | undefined;
  readonly simulation: SimulationName;
}): Promise<void> {
  const { from, to, steps, trace, mutation, simulation } = options;
  const made = mutation === undefined ? "" : ` with ${mutation.name} (${mutation.mistake})`;
  const option = mutation === undefined ? "" : ` --mutate ${mutation.name}`;
  for (let seed = from; seed <= to; seed++) {
    if (mutation?.scenario !== undefined && scenarioNameOf(simulation, seed) !== mutation.scenario) continue;
    const { violation, ...result } = await runAnySeed(simulation, seed, steps);
    if (violation !== undefined) {
      const failure = { simulation, seed, steps, violation };
      process.stdout.write(`${reasonOf(failure)}\n`);
      if (mutation !== undefined) process.stdout.write(`found${made} after ${seed - from + 1} seeds\n`);
      // The history is not needed when searching for a mutation.
      if (from === to && !trace) process.stdout.write(`${await historyOf(failure, option)}\n`);
      process.exitCode = 1;
    }
    if (trace) printTrace(result);
    if (violation !== undefined) return;
  }
  process.stdout.write(`seeds ${from}..${to}${made}, ${steps} steps: no violation\n`);
  for (const place of unreachedPlaces()) process.stdout.write(`nothing ever came to ${place}: mend the mutation\n`);
}

/**
 * Activates each mutation in turn, until a seed finds it. Sets the exit code to 1 when none of a mutation's seeds finds
 * it.
 */
export async function findEach(mutations: readonly Mutation[], steps: number): Promise<void> {
  for (const mutation of mutations) {
    const { name, withinSeeds, foundBy } = mutation;
    switchOn(mutation);
    const seed = await firstFailing(mutation, steps);
    if (seed === undefined) process.exitCode = 1;
    const instead = seed === undefined || seed === foundBy ? "" : `, no longer by ${foundBy}: mend foundBy`;
    process.stdout.write(
      `${name}: ${seed === undefined ? "no" : `seed ${seed}`} of at most ${withinSeeds}${instead}\n`,
    );
  }
}

/** Returns the first failing seed. Tries the mutation's known seed first, and then all from 1 on. */
async function firstFailing(mutation: Mutation, steps: number): Promise<number | undefined> {
  const { withinSeeds, foundBy, scenario, simulation = "mesh" } = mutation;
  if (foundBy > withinSeeds) throw new Error(`${mutation.name} is found by seed ${foundBy}, after its withinSeeds`);
  for (let tried = 0; tried <= withinSeeds; tried++) {
    const seed = tried === 0 ? foundBy : tried;
    if (scenario !== undefined && scenarioNameOf(simulation, seed) !== scenario) continue;
    if ((await runAnySeed(simulation, seed, steps)).violation !== undefined) return seed;
  }
  return undefined;
}

function printTrace({ lines, hash }: Pick<SeedResult, "lines" | "hash">): void {
  process.stdout.write(`step time(ms) what\n${lines.join("\n")}\ntrace hash ${hash}\n`);
}
