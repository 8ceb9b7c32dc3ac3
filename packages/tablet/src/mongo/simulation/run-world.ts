import { StateSums } from "../../documents/checksums.js";
import { type Ablation, Callers, candidate } from "./candidate.js";
import { restoring } from "./restoring.js";
import { CLIMATES, type Climate, World } from "./world.js";

export interface WorldOptions {
  readonly climate?: Climate;
  readonly ablation?: Ablation;
}

const STEPS = 4_000;

/** Runs the world of a seed and returns counts of its events. Throws when an invariant was violated. */
export async function runWorld(seed: number, options: WorldOptions = {}): Promise<Record<string, number>> {
  const { climate = "usual", ablation = {} } = options;
  const world = new World(seed, CLIMATES[climate]);
  const callers = new Callers(world, ablation.onLeases ? false : seed % 2 === 0);
  const { differenceFrom } = StateSums.prototype;
  if (ablation.ignoresSums) StateSums.prototype.differenceFrom = () => undefined;
  try {
    await world.run(STEPS, (process) => {
      const restores =
        world.documents.log.awaitsRestore || (callers.backups.length > 0 && world.happens(world.faults.restore));
      return restores ? restoring(process, callers, ablation) : candidate(process, callers, ablation);
    });
  } finally {
    StateSums.prototype.differenceFrom = differenceFrom;
  }
  return world.counts;
}
