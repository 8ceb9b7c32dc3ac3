import type { Random } from "../../random.js";
import { type CopyFaults, NO_FAULTS } from "./faults.js";

export type CopyScenarioName =
  | "everything"
  | "power"
  | "partitions"
  | "restores"
  | "agents"
  | "snapshots"
  | "moves"
  | "leaving"
  | "fences"
  | "flaps";

/** Faults and wishes of a seed. */
export interface CopyScenario {
  readonly name: CopyScenarioName;
  readonly faults: CopyFaults;
  readonly hostCount: number;
  readonly drivesPerHost: number;
  readonly partCount: number;
  readonly copies: number;
  readonly isKernel: boolean;
  /** Writes that wait before users only read and flush. */
  readonly writesAtOnce: number;
  /** Probabilities of an operator's wish per turn. `moveOwn`: the disk is used on the host that the moved copy leaves. */
  readonly wishes: Readonly<Record<"publish" | "move" | "moveOwn" | "snapshot" | "delete", number>>;
}

/** Most snapshots that are made of a seed's disk. */
export const MOST_SNAPSHOTS = 2;
/** Most drives that fail for good. */
export const MOST_DEATHS = 2;

const RARE: CopyFaults = {
  ...NO_FAULTS,
  loss: 0.02,
  duplication: 0.02,
  late: 0.03,
  hang: 0.004,
  failure: 0.004,
  death: 0.002,
  powerLoss: 0.003,
  agentCrash: 0.004,
  lostCache: 0.3,
  pairCut: 0.004,
  registryCut: 0.003,
  hostCut: 0.003,
  takeover: 0.004,
  backup: 0.01,
  rewind: 0.001,
  rewindAfterChange: 0.01,
  copiedBack: 0.4,
};
const WISHES = { publish: 0.01, move: 0.005, moveOwn: 0, snapshot: 0.004, delete: 0.0005 };

interface Kind {
  readonly name: CopyScenarioName;
  readonly faults: CopyFaults;
  readonly wishes?: Partial<CopyScenario["wishes"]>;
}

const KINDS: readonly Kind[] = [
  { name: "everything", faults: RARE },
  { name: "power", faults: { ...NO_FAULTS, powerLoss: 0.015, late: 0.05, hang: 0.005, failure: 0.005, death: 0.008 } },
  {
    name: "partitions",
    faults: {
      ...NO_FAULTS,
      pairCut: 0.01,
      registryCut: 0.01,
      othersCut: 0.03,
      hostCut: 0.02,
      takeover: 0.005,
      loss: 0.05,
    },
    wishes: { publish: 0.03 },
  },
  {
    name: "restores",
    faults: {
      ...NO_FAULTS,
      hostCut: 0.01,
      powerLoss: 0.01,
      death: 0.003,
      backup: 0.04,
      rewindAfterChange: 0.3,
      copiedBack: 0.4,
    },
    wishes: { move: 0.02, delete: 0.001 },
  },
  {
    name: "agents",
    faults: {
      ...NO_FAULTS,
      agentCrash: 0.02,
      agentCrashAfterChange: 0.6,
      lostCache: 0.5,
      takeover: 0.01,
      late: 0.1,
      failure: 0.04,
      backup: 0.05,
      rewind: 0.01,
      rewindAfterChange: 0.1,
      rewindAfterDrop: 0.8,
    },
  },
  {
    name: "snapshots",
    faults: { ...NO_FAULTS, powerLoss: 0.003, loss: 0.05, late: 0.1, takeover: 0.01, pairCut: 0.004 },
    wishes: { snapshot: 0.03, publish: 0.005 },
  },
  {
    name: "moves",
    faults: { ...NO_FAULTS, failure: 0.02, powerLoss: 0.004, late: 0.4, duplication: 0.3, loss: 0.2, hostCut: 0.01 },
    wishes: { move: 0.04, publish: 0.005, snapshot: 0.02 },
  },
  {
    name: "leaving",
    faults: {
      ...NO_FAULTS,
      loss: 0.2,
      late: 0.3,
      backup: 0.05,
      copiedBack: 0.4,
      rewindAfterLeave: 0.25,
      rewindAfterFill: 0.1,
    },
    wishes: { move: 0.08 },
  },
  {
    name: "fences",
    faults: { ...NO_FAULTS, fenceAfterLeave: 1 },
    wishes: { move: 0.1, moveOwn: 0.8, snapshot: 0.001 },
  },
  { name: "flaps", faults: { ...NO_FAULTS, flap: 0.02, ailing: 0.01, rewindAfterForget: 0.5 }, wishes: { move: 0.02 } },
];

export function copyScenarioNameOf(seed: number): CopyScenarioName {
  return (KINDS[seed % KINDS.length] as Kind).name;
}

/** Returns the scenario of a seed. Seeds take turns in scenarios and in the number of copies. */
export function scenarioOf(seed: number, random: Random): CopyScenario {
  const kind = KINDS[seed % KINDS.length] as Kind;
  const partCount = 1 + random.below(2);
  return {
    name: kind.name,
    faults: kind.faults,
    hostCount: 3 + random.below(3),
    // Each host has room for a copy of every part of the disk and of its snapshots, and for what comes and goes.
    drivesPerHost: partCount * (1 + MOST_SNAPSHOTS) + 2,
    partCount,
    copies: 1 + (Math.floor(seed / KINDS.length) % 3),
    isKernel: random.chance(0.5),
    writesAtOnce: 1 + random.below(4),
    wishes: { ...WISHES, ...kind.wishes },
  };
}
