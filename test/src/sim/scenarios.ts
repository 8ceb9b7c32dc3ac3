import type { Faults } from "./faults.js";
import type { Drive } from "./machine.js";
import { purgeWhileSilent, serveFromAfar, takeTurnsOnSharedBytes, tenantsAcrossARewind } from "./plans.js";
import type { World } from "./world.js";

/** What an operator asks for, one thing a turn. */
export type Plan = Generator<void, void, void>;

/** A schedule with a purpose and little else in its way, for mistakes that chance alone seldom meets. */
export interface Scenario {
  readonly name: string;
  /** All others are off. */
  readonly faults: Partial<Faults>;
  /** 1 to 3 by chance, unless told. */
  readonly hostCount?: number;
  /** How the first two hosts see one drive; undefined: they do not. */
  readonly shares?: Drive["sharedAs"];
  /** How many times as long as other runs; 1 unless told. */
  readonly length?: number;
  /** What is asked for nearly always; undefined: anything. */
  readonly plan?: (world: World) => Plan;
}

/** Of so many seeds, one takes a scenario. */
const SEEDS_PER_SCENARIO = 3;

const SCENARIOS: readonly Scenario[] = [
  {
    name: "connections between agents break while their writes hang in the drive",
    faults: { streamBreak: 0.7, ioMs: 100, slowIo: 0.5, lateMessage: 0.1, lateMessageMs: 200 },
    hostCount: 2,
    length: 2,
    plan: serveFromAfar,
  },
  {
    name: "drives are swapped while their machine is off, which forgets what it called them",
    faults: { agentCrash: 0.02, powerLoss: 1, swapWhileOff: 0.8 },
  },
  {
    name: "two agents take turns on one file, and answers to erases are lost",
    faults: { lostEraseAnswer: 0.5, ioMs: 5 },
    hostCount: 2,
    shares: "file",
    length: 4,
    plan: takeTurnsOnSharedBytes,
  },
  {
    name: "agents that end have lost their caches, or a part of them, when they start again",
    faults: { agentCrash: 0.02, powerLoss: 0.3, brokenCache: 0.4, failedCacheWrite: 0.05 },
  },
  {
    name: "devices are forgotten while nobody hears their host",
    faults: {},
    length: 2,
    plan: purgeWhileSilent,
  },
  {
    name: "the registry is restored as of before a tenant came",
    faults: {},
    length: 3,
    plan: tenantsAcrossARewind,
  },
  {
    name: "the registry's folder is copied back to before a tenant came",
    faults: { copiedBack: 1 },
    length: 3,
    plan: tenantsAcrossARewind,
  },
  {
    name: "the registry is restored elsewhere as of before a tenant came, and the former one runs on",
    faults: { rival: 0.7 },
    length: 3,
    plan: tenantsAcrossARewind,
  },
  {
    name: "anything, and the registry goes back",
    faults: { backup: 0.02, rewind: 0.004, copiedBack: 0.4, rival: 0.4 },
    length: 2,
  },
  {
    name: "an agent lies",
    faults: { lie: 0.3 },
  },
];

/** The scenarios take turns. */
export function scenarioOf(seed: number): Scenario | undefined {
  if (seed % SEEDS_PER_SCENARIO !== SEEDS_PER_SCENARIO - 1) return undefined;
  return SCENARIOS[Math.floor(seed / SEEDS_PER_SCENARIO) % SCENARIOS.length];
}
