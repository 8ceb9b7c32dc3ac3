import type { Random } from "../random.js";

/** Strength of each fault: a probability unless stated otherwise. Each seed draws its own values. */
export interface Faults {
  /** A message is lost. */
  loss: number;
  /** A message arrives twice. */
  duplication: number;
  /** A message is delayed, so that later ones overtake it. */
  lateMessage: number;
  lateMessageMs: number;
  messageMs: number;
  /** A link between agents breaks, at each check. */
  linkBreak: number;
  /** An answer is garbled by its sender, so that it does not count as a success. */
  garbledAnswer: number;
  /** The answer to an erase is lost. */
  lostEraseAnswer: number;
  /** An agent receives the opposite of an order that it has obeyed, under the same stamp. */
  confusedOrder: number;
  /** Per step: an agent's process dies, possibly with its machine. */
  agentCrash: number;
  registryCrash: number;
  /** A crash loses the machine's unsynced file contents. */
  powerLoss: number;
  /** Per step: a process is stopped for a while, and does not notice. */
  pause: number;
  /** Per step: another registry starts to lead while the first still runs. */
  secondLeader: number;
  /** Per step: a backup of the registry is created. */
  backup: number;
  /** Per step, once there is a backup: the registry is stopped and continues from an earlier state (a rewind). */
  rewind: number;
  /** The earlier state of a rewind is a copy of the registry's folder, not a restored backup. */
  copiedBack: number;
  /** The restore starts another registry, and the former one continues. */
  rival: number;
  /** Per message: one agent reports numbers that no registry gave. */
  lie: number;
  /** Per registration of one agent: the report of a device is malformed. */
  malformedDevice: number;
  /** Per later registration of one agent start: the whole request is malformed. */
  malformedRegistration: number;
  /** Per step: two places cannot reach each other for a while. */
  partition: number;
  commitMs: number;
  slowCommit: number;
  /** A commit fails with an unknown outcome. */
  unknownCommit: number;
  openMs: number;
  slowOpen: number;
  failedOpen: number;
  ioMs: number;
  slowIo: number;
  failedIo: number;
  cacheMs: number;
  slowCacheWrite: number;
  failedCacheWrite: number;
  /** At an agent's start: its cache differs from what it wrote. */
  brokenCache: number;
  /** Per step: a device file disappears, returns, or is replaced. */
  hardware: number;
  /** At a machine's power loss: one of its drives is replaced by another one. */
  swapWhileOff: number;
  /** At a machine's power loss: two of its drives have swapped paths afterwards. */
  exchangeWhileOff: number;
  /** At an agent's start: two devices of one drive have swapped offsets in its config. */
  exchangedPlaces: number;
  /** Per step: a file is truncated. */
  cutOff: number;
}

const CALM: Faults = {
  loss: 0,
  duplication: 0,
  lateMessage: 0,
  lateMessageMs: 0,
  linkBreak: 0,
  messageMs: 5,
  garbledAnswer: 0,
  lostEraseAnswer: 0,
  confusedOrder: 0,
  agentCrash: 0,
  registryCrash: 0,
  powerLoss: 0,
  pause: 0,
  secondLeader: 0,
  backup: 0,
  rewind: 0,
  copiedBack: 0,
  rival: 0,
  lie: 0,
  malformedDevice: 0,
  malformedRegistration: 0,
  partition: 0,
  commitMs: 3,
  slowCommit: 0,
  unknownCommit: 0,
  openMs: 3,
  slowOpen: 0,
  failedOpen: 0,
  ioMs: 2,
  slowIo: 0,
  failedIo: 0,
  cacheMs: 2,
  slowCacheWrite: 0,
  failedCacheWrite: 0,
  brokenCache: 0,
  hardware: 0,
  swapWhileOff: 0,
  exchangeWhileOff: 0,
  exchangedPlaces: 0,
  cutOff: 0,
};

/** Returns all faults switched off. */
export function calm(): Faults {
  return { ...CALM };
}

/**
 * Draws some kinds of faults, each with its own strength. With all kinds at once, hardly any operation would progress.
 */
export function drawFaults(random: Random): Faults {
  const some = (probability: number, low: number, high: number): number =>
    random.chance(probability) ? random.between(low, high) : 0;
  const hardware = some(0.4, 0.005, 0.02);
  const rewinds = some(0.1, 0.001, 0.005);
  return {
    loss: some(0.5, 0.01, 0.15),
    duplication: some(0.5, 0.02, 0.2),
    lateMessage: some(0.6, 0.02, 0.25),
    lateMessageMs: random.pick([200, 1_000, 5_000]),
    messageMs: random.pick([2, 20, 100]),
    linkBreak: some(0.6, 0.1, 0.5),
    garbledAnswer: some(0.4, 0.05, 0.4),
    lostEraseAnswer: some(0.2, 0.1, 0.6),
    confusedOrder: some(0.4, 0.05, 0.5),
    agentCrash: some(0.6, 0.001, 0.01),
    registryCrash: some(0.5, 0.001, 0.008),
    powerLoss: random.pick([0, 0.3, 1]),
    pause: some(0.4, 0.001, 0.006),
    secondLeader: some(0.5, 0.001, 0.008),
    backup: rewinds && 0.01,
    rewind: rewinds,
    copiedBack: random.pick([0, 0.5]),
    rival: random.pick([0, 0.5]),
    lie: some(0.05, 0.05, 0.5),
    malformedDevice: 0,
    malformedRegistration: 0,
    partition: some(0.4, 0.001, 0.008),
    commitMs: random.pick([1, 5, 40]),
    slowCommit: some(0.3, 0.02, 0.2),
    unknownCommit: some(0.3, 0.001, 0.01),
    openMs: random.pick([1, 20, 200]),
    slowOpen: some(0.5, 0.05, 0.4),
    failedOpen: some(0.4, 0.05, 0.3),
    ioMs: random.pick([1, 20, 100]),
    slowIo: some(0.6, 0.1, 0.5),
    failedIo: some(0.3, 0.01, 0.1),
    cacheMs: random.pick([1, 10, 100]),
    slowCacheWrite: some(0.4, 0.05, 0.3),
    failedCacheWrite: some(0.3, 0.02, 0.1),
    brokenCache: some(0.15, 0.1, 0.5),
    hardware,
    swapWhileOff: hardware > 0 ? 0.5 : 0,
    exchangeWhileOff: hardware > 0 ? 0.3 : 0,
    exchangedPlaces: hardware > 0 ? 0.3 : 0,
    cutOff: hardware / 4,
  };
}
