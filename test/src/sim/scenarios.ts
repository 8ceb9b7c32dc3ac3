import type { Drive } from "./drive.js";
import type { Faults } from "./faults.js";
import type { Plan, World } from "./parts.js";
import {
  fenceTheDead,
  purgeWhileSilent,
  registerAgainAndAgain,
  serveFromAfar,
  takeTurnsOnSharedBytes,
  tenantsAcrossARewind,
  useWhileDrivesMove,
} from "./plans.js";

export type ScenarioName =
  | "broken streams"
  | "swapped while off"
  | "turns on one file"
  | "lost caches"
  | "purged while silent"
  | "restored"
  | "copied back"
  | "two registries"
  | "anything goes back"
  | "lies"
  | "hosts die"
  | "refused registrations"
  | "drives move";

/** A schedule with a purpose and little else in its way, for mistakes that chance alone seldom meets. */
export interface Scenario {
  readonly name: ScenarioName;
  /** All others are off. */
  readonly faults: Partial<Faults>;
  /** 1 to 3 by chance, unless told. */
  readonly hostCount?: number;
  /** How the first two hosts see one drive; undefined: they do not. */
  readonly shares?: Drive["sharedAs"];
  /** How likely nothing tells a drive from others once its machine has booted; 0 unless told. */
  readonly unmarkedDrives?: number;
  /** How many times as long as other runs; 1 unless told. */
  readonly length?: number;
  /** The requests that most turns make; undefined: any. */
  readonly plan?: (world: World) => Plan;
}

/** One seed of this many runs a scenario. */
const SEEDS_PER_SCENARIO = 3;

const SCENARIOS: readonly Scenario[] = [
  {
    // Connections between agents break while their writes hang in the drive.
    name: "broken streams",
    faults: { streamBreak: 0.7, ioMs: 100, slowIo: 0.5, lateMessage: 0.1, lateMessageMs: 200 },
    hostCount: 2,
    length: 2,
    plan: serveFromAfar,
  },
  {
    // Drives are swapped, or change places, while their machine is off, which forgets what it called them.
    name: "swapped while off",
    faults: { agentCrash: 0.02, powerLoss: 1, swapWhileOff: 0.8, exchangeWhileOff: 0.2 },
    length: 3,
    unmarkedDrives: 1,
  },
  {
    // Two agents take turns on one file, and answers to erases are lost.
    name: "turns on one file",
    faults: { lostEraseAnswer: 0.5, ioMs: 5 },
    hostCount: 2,
    shares: "file",
    length: 4,
    plan: takeTurnsOnSharedBytes,
  },
  {
    // Agents that end have lost their caches, or a part of them, when they start again.
    name: "lost caches",
    faults: { agentCrash: 0.02, powerLoss: 0.3, brokenCache: 0.4, failedCacheWrite: 0.05 },
  },
  {
    // Devices are forgotten while nobody hears their host.
    name: "purged while silent",
    faults: {},
    length: 2,
    plan: purgeWhileSilent,
  },
  {
    // The registry is restored as of before a tenant came.
    name: "restored",
    faults: {},
    length: 3,
    plan: tenantsAcrossARewind,
  },
  {
    // The registry's folder is copied back to before a tenant came.
    name: "copied back",
    faults: { copiedBack: 1 },
    length: 3,
    plan: tenantsAcrossARewind,
  },
  {
    // The registry is restored elsewhere as of before a tenant came, and the former one runs on.
    name: "two registries",
    faults: { rival: 0.7 },
    length: 3,
    plan: tenantsAcrossARewind,
  },
  {
    // Anything, and the registry goes back.
    name: "anything goes back",
    faults: { backup: 0.02, rewind: 0.004, copiedBack: 0.4, rival: 0.4 },
    length: 2,
  },
  {
    // An agent lies.
    name: "lies",
    faults: { lie: 0.3 },
  },
  {
    // Most hosts die or are cut off, are fenced by hand and by silence, and come back.
    name: "hosts die",
    faults: { ioMs: 5, slowIo: 0.2, openMs: 200, slowOpen: 0.5 },
    hostCount: 3,
    length: 4,
    plan: fenceTheDead,
  },
  {
    // A registry cannot read what one agent says of a device, or anything of it but its heartbeats.
    name: "refused registrations",
    faults: { malformedDevice: 0.9, malformedRegistration: 0.9 },
    hostCount: 1,
    length: 3,
    plan: registerAgainAndAgain,
  },
];

/** Disks are in use on a host whose drives and config change while it is off. */
const MOVED: Scenario = {
  name: "drives move",
  faults: { exchangedPlaces: 0.5, ioMs: 5 },
  hostCount: 1,
  length: 8,
  unmarkedDrives: 0.5,
  plan: useWhileDrivesMove,
};
/** It takes the seeds with this remainder, so that the other scenarios keep their turns. */
const MOVED_EVERY = 30;
const MOVED_AT = 16;

/** The scenarios take turns. */
export function scenarioOf(seed: number): Scenario | undefined {
  if (seed % MOVED_EVERY === MOVED_AT) return MOVED;
  if (seed % SEEDS_PER_SCENARIO !== SEEDS_PER_SCENARIO - 1) return undefined;
  return SCENARIOS[Math.floor(seed / SEEDS_PER_SCENARIO) % SCENARIOS.length];
}
