/** Probabilities of faults per turn, unless another unit is named. */
export interface CopyFaults {
  /** Probability of each message to be lost, to come twice, or to be late by up to a second. */
  loss: number;
  duplication: number;
  late: number;
  /** A drive hangs, or fails its requests, for some seconds. */
  hang: number;
  failure: number;
  /** A drive that a disk has fails some requests, again and again. */
  ailing: number;
  /** A drive fails for good, and is taken out by an operator. */
  death: number;
  /** A machine loses its power. */
  powerLoss: number;
  /** An agent ends and starts again, and the probability that its memory is lost then. */
  agentCrash: number;
  /** The same a moment after each change of a set of copies, of the agent that holds the disk. */
  agentCrashAfterChange: number;
  lostCache: number;
  /** Two hosts are cut from each other, or one from the registry, for some seconds. */
  pairCut: number;
  registryCut: number;
  /** A host is cut from all others, and not from the registry. */
  othersCut: number;
  /** A host is cut from everything, or comes and goes. */
  hostCut: number;
  /** A host comes and goes some times. */
  flap: number;
  /** Another registry takes over. */
  takeover: number;
  backup: number;
  /** The registry goes back to a backup, and the probability that its folder is copied, with counters that are old. */
  rewind: number;
  /** The same after each change of a set of copies, while a host is cut off. */
  rewindAfterChange: number;
  /** The same some seconds after a copy was dropped, of which the registry has heard the holder alone. */
  rewindAfterDrop: number;
  /** The same a moment after a copy was filled, which is not heard, while those fail that it was filled from. */
  rewindAfterFill: number;
  /** The same a moment after a copy has left, while one that stays is not heard. */
  rewindAfterLeave: number;
  copiedBack: number;
  /** The same some seconds after a copy was remembered, which may be erased by then, while those fail for good that count. */
  rewindAfterForget: number;
  /** The holder's own copy leaves, and the holder is cut off before it hears of that, and is fenced. */
  fenceAfterLeave: number;
}

export const NO_FAULTS: CopyFaults = {
  loss: 0,
  duplication: 0,
  late: 0,
  hang: 0,
  failure: 0,
  ailing: 0,
  death: 0,
  powerLoss: 0,
  agentCrash: 0,
  agentCrashAfterChange: 0,
  lostCache: 0,
  pairCut: 0,
  registryCut: 0,
  othersCut: 0,
  hostCut: 0,
  flap: 0,
  takeover: 0,
  backup: 0,
  rewind: 0,
  rewindAfterChange: 0,
  rewindAfterDrop: 0,
  rewindAfterFill: 0,
  rewindAfterLeave: 0,
  copiedBack: 0,
  rewindAfterForget: 0,
  fenceAfterLeave: 0,
};
