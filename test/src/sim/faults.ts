import type { Random } from "../random.js";

/** How badly the world behaves. Probabilities unless named otherwise. Each seed draws its own. */
export interface Faults {
  /** A message never arrives. */
  loss: number;
  /** A message arrives twice. */
  duplication: number;
  /** A message takes long, so that later ones overtake it. */
  lateMessage: number;
  lateMessageMs: number;
  messageMs: number;
  /** A stream between agents breaks, each time that somebody looks. */
  streamBreak: number;
  /** An answer is garbled by its sender: it does not count as a success. */
  garbledAnswer: number;
  /** The answer to an erase never arrives. */
  lostEraseAnswer: number;
  /** An agent gets the opposite of an order that it has obeyed, under the same stamp. */
  confusedOrder: number;
  /** Per step: a process dies, or a machine with it. */
  agentCrash: number;
  registryCrash: number;
  /** A crash takes the machine's unsynced file contents with it. */
  powerLoss: number;
  /** Per step: a process stands still for a while and then goes on as if nothing had happened. */
  pause: number;
  /** Per step: another registry takes the lead while the first still runs. */
  secondLeader: number;
  /** Per step: a backup of the registry is taken. */
  backup: number;
  /** Per step, once there is a backup: the registry is stopped and goes back to one. */
  rewind: number;
  /** Nobody restores it then: its folder is replaced by an earlier copy. */
  copiedBack: number;
  /** It is restored elsewhere then, and the former one runs on. */
  rival: number;
  /** Per message: one agent says that it remembers numbers that nobody gave. */
  lie: number;
  /** Per registration of one agent: the registry cannot read what it says of a device. */
  malformedDevice: number;
  /** Per later registration of a start of that agent: the registry cannot read it at all. */
  malformedRegistration: number;
  /** Per step: two places cannot reach each other for a while. */
  partition: number;
  commitMs: number;
  slowCommit: number;
  /** A commit fails, and nobody knows whether it took place. */
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
  /** At an agent's start: its cache is not what it left. */
  brokenCache: number;
  /** Per step: a device file vanishes, comes back, or is another one. */
  hardware: number;
  /** When a machine loses its power: another drive is in it when it comes back. */
  swapWhileOff: number;
  /** The same: two of its drives have each other's path. */
  exchangeWhileOff: number;
  /** At an agent's start: two devices of one drive have each other's offset in its config. */
  exchangedPlaces: number;
  /** Per step: a file is cut off. */
  cutOff: number;
}

const CALM: Faults = {
  loss: 0,
  duplication: 0,
  lateMessage: 0,
  lateMessageMs: 0,
  streamBreak: 0,
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

/** Nothing goes wrong any more. */
export function calm(): Faults {
  return { ...CALM };
}

/** Some kinds of trouble, each of its own strength: all at once would let nothing get far enough to break. */
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
    streamBreak: some(0.6, 0.1, 0.5),
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
