import { copyScenarioNameOf } from "./copies/scenarios.js";
import { scenarioOf } from "./scenarios.js";
import type { SeedResult } from "./seed/seed-result.js";

/** The simulators: of whole registries and agents, and of the protocol of disks with several copies alone. */
export type SimulationName = "mesh" | "copies";

/** Returns the name of the seed's scenario; undefined for none. */
export function scenarioNameOf(simulation: SimulationName, seed: number): string | undefined {
  return simulation === "copies" ? copyScenarioNameOf(seed) : scenarioOf(seed)?.name;
}

/** Runs one seed. The same seed and steps give the same result. Imports late what a mutation may replace. */
export async function runAnySeed(simulation: SimulationName, seed: number, steps: number): Promise<SeedResult> {
  if (simulation === "copies") return (await import("./copies/run-seed.js")).runCopySeed(seed, steps);
  return (await import("./run-seed.js")).runSeed(seed, steps);
}
