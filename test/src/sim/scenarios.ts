import type { Drive } from "./drive.js";
import type { Faults } from "./faults.js";
import { BLOCK_BYTES } from "./machine.js";
import type { Plan, World } from "./parts.js";
import { adoptDrives } from "./plan-adoptions.js";
import { exchangeDrives } from "./plan-exchanges.js";
import { interruptMoves, moveDisks } from "./plan-moves.js";
import { splitParts, useSlices } from "./plan-slices.js";
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
  | "broken links"
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
  | "drives move"
  | "disks move"
  | "targets fail"
  | "moves go on"
  | "disks on slices"
  | "parts are split"
  | "slices go back"
  | "drives are adopted"
  | "drives change places";

/** A schedule with few faults and requests, for mistakes that random runs seldom find. */
export interface Scenario {
  readonly name: ScenarioName;
  /** Active faults; all others are off. */
  readonly faults: Partial<Faults>;
  /** Number of hosts; random from 1 to 3 by default. */
  readonly hostCount?: number;
  /** How the first two hosts share a drive; undefined: they share none. */
  readonly shares?: Drive["sharedAs"];
  /** Probability that nothing identifies a drive after a reboot; 0 by default. */
  readonly unmarkedDrives?: number;
  /** Slices of each drive of a host; undefined: drives as the seed says. */
  readonly slices?: number;
  /** Drives of each host that has drives with slices; 1 by default. */
  readonly drives?: number;
  /** Length relative to other runs; 1 by default. */
  readonly length?: number;
  /** Requests of most turns; undefined: random requests. */
  readonly plan?: (world: World) => Plan;
  /** Rate of the copies of a host; unlimited by default. */
  readonly copyBytesPerSecond?: number;
}

/** One of this number of seeds runs a scenario. */
const SEEDS_PER_SCENARIO = 3;

const SCENARIOS: readonly Scenario[] = [
  {
    // Links between agents break while their writes hang in the drive.
    name: "broken links",
    faults: { linkBreak: 0.7, ioMs: 100, slowIo: 0.5, lateMessage: 0.1, lateMessageMs: 200 },
    hostCount: 2,
    length: 2,
    plan: serveFromAfar,
  },
  {
    // Drives are replaced or swapped while their machine is off. Its next boot gives them new names.
    name: "swapped while off",
    faults: { agentCrash: 0.02, powerLoss: 1, swapWhileOff: 0.8, exchangeWhileOff: 0.2 },
    length: 3,
    unmarkedDrives: 1,
  },
  {
    // Two agents use one file alternately, and answers to erases are lost.
    name: "turns on one file",
    faults: { lostEraseAnswer: 0.5, ioMs: 5 },
    hostCount: 2,
    shares: "file",
    length: 4,
    plan: takeTurnsOnSharedBytes,
  },
  {
    // Crashed agents lose their caches, completely or partly.
    name: "lost caches",
    faults: { agentCrash: 0.02, powerLoss: 0.3, brokenCache: 0.4, failedCacheWrite: 0.05 },
  },
  {
    // Devices are purged while their host is silent.
    name: "purged while silent",
    faults: {},
    length: 2,
    plan: purgeWhileSilent,
  },
  {
    // The registry is restored from a backup that precedes a disk.
    name: "restored",
    faults: {},
    length: 3,
    plan: tenantsAcrossARewind,
  },
  {
    // The registry's folder is replaced by a copy that precedes a disk.
    name: "copied back",
    faults: { copiedBack: 1 },
    length: 3,
    plan: tenantsAcrossARewind,
  },
  {
    // The registry is restored elsewhere from a backup that precedes a disk, and the former registry continues.
    name: "two registries",
    faults: { rival: 0.7 },
    length: 3,
    plan: tenantsAcrossARewind,
  },
  {
    // Random requests, and the registry is rewound.
    name: "anything goes back",
    faults: { backup: 0.02, rewind: 0.004, copiedBack: 0.4, rival: 0.4 },
    length: 2,
  },
  {
    // One agent reports false numbers.
    name: "lies",
    faults: { lie: 0.3 },
  },
  {
    // Most hosts die or are cut off, are fenced by call and by the silence rule, and return.
    name: "hosts die",
    faults: { ioMs: 5, slowIo: 0.2, openMs: 200, slowOpen: 0.5 },
    hostCount: 3,
    length: 4,
    plan: fenceTheDead,
  },
  {
    // The registry refuses one agent's report of a device, or everything except its heartbeats.
    name: "refused registrations",
    faults: { malformedDevice: 0.9, malformedRegistration: 0.9 },
    hostCount: 1,
    length: 3,
    plan: registerAgainAndAgain,
  },
];

/** Disks are used on a host whose drives and config change while it is off. */
const MOVED: Scenario = {
  name: "drives move",
  faults: { exchangedPlaces: 0.5, ioMs: 5 },
  hostCount: 1,
  length: 8,
  unmarkedDrives: 0.5,
  plan: useWhileDrivesMove,
};
/** Disks move from host to host while agents and registries end. */
const DISKS_MOVE: Scenario = {
  name: "disks move",
  faults: { ioMs: 10, slowIo: 0.02, lateMessage: 0.2, lateMessageMs: 400, agentCrash: 0.0005, powerLoss: 0.3 },
  hostCount: 3,
  length: 8,
  plan: moveDisks,
};
/** I/O fails, and links break, while disks move. */
const TARGETS_FAIL: Scenario = {
  ...DISKS_MOVE,
  name: "targets fail",
  faults: { ioMs: 10, failedIo: 0.02, linkBreak: 0.05, loss: 0.05, lateMessage: 0.1, lateMessageMs: 400 },
};
/** A disk is attached and detached again and again while it moves, and is taken from its host now and then. */
const MOVES_GO_ON: Scenario = {
  ...DISKS_MOVE,
  name: "moves go on",
  faults: { ioMs: 10, slowIo: 0.03, lateMessage: 0.1, lateMessageMs: 400, agentCrash: 0.0003, powerLoss: 0.3 },
  length: 16,
  copyBytesPerSecond: 2 * BLOCK_BYTES,
  plan: interruptMoves,
};
/** Disks on slices of few drives are made, grown, moved and deleted, while processes end and caches are lost. */
const ON_SLICES: Scenario = {
  name: "disks on slices",
  faults: {
    ioMs: 5,
    slowIo: 0.02,
    duplication: 0.3,
    lateMessage: 0.3,
    lateMessageMs: 2_000,
    agentCrash: 0.001,
    brokenCache: 0.2,
  },
  hostCount: 2,
  slices: 7,
  length: 16,
  plan: useSlices,
};
/** Disks move to drives that have no run of their size. */
const PARTS_ARE_SPLIT: Scenario = {
  ...ON_SLICES,
  name: "parts are split",
  faults: { ioMs: 5, slowIo: 0.02, lateMessage: 0.1, lateMessageMs: 500, agentCrash: 0.001, registryCrash: 0.001 },
  plan: splitParts,
};
/** The registry of such disks is rewound. */
const SLICES_GO_BACK: Scenario = {
  ...ON_SLICES,
  name: "slices go back",
  faults: { ioMs: 5, agentCrash: 0.001, backup: 0.01, rewind: 0.002, copiedBack: 0.4, rival: 0.2 },
  length: 8,
};
/** A host adopts the drive of another one, while a disk is served that was on its device before. */
const ARE_ADOPTED: Scenario = {
  name: "drives are adopted",
  faults: { ioMs: 5, slowIo: 0.02, lateMessage: 0.1, lateMessageMs: 500, agentCrash: 0.0005, registryCrash: 0.0005 },
  hostCount: 2,
  slices: 2,
  length: 12,
  plan: adoptDrives,
};
/** Drives of one host change places, at work or while their machine is off, and each device follows its drive. */
const CHANGE_PLACES: Scenario = {
  name: "drives change places",
  faults: { ioMs: 5, slowIo: 0.02, lateMessage: 0.1, lateMessageMs: 500, agentCrash: 0.0005, registryCrash: 0.0005 },
  hostCount: 2,
  slices: 2,
  drives: 3,
  length: 12,
  plan: exchangeDrives,
};
/** Divisor of the seeds that run these scenarios, so that other scenarios keep their seeds. */
const RARE_EVERY = 30;
const RARE = new Map([
  [4, ON_SLICES],
  [7, CHANGE_PLACES],
  [10, DISKS_MOVE],
  [12, PARTS_ARE_SPLIT],
  [16, MOVED],
  [19, MOVES_GO_ON],
  [22, TARGETS_FAIL],
  [25, ARE_ADOPTED],
  [28, SLICES_GO_BACK],
]);

/** Half of the seeds, in turns of this number, have drives with slices. */
const SEEDS_PER_DRIVES = 36;

/** Returns the slices of the smallest devices of a seed; 0 for devices that are too small for slices. */
export function slicesOf(seed: number): number {
  return Math.floor(seed / SEEDS_PER_DRIVES) % 2;
}

/** Returns the scenario of a seed; scenarios alternate. */
export function scenarioOf(seed: number): Scenario | undefined {
  const rare = RARE.get(seed % RARE_EVERY);
  if (rare !== undefined) return rare;
  if (seed % SEEDS_PER_SCENARIO !== SEEDS_PER_SCENARIO - 1) return undefined;
  return SCENARIOS[Math.floor(seed / SEEDS_PER_SCENARIO) % SCENARIOS.length];
}
