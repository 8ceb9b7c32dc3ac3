import type { ScenarioName } from "./scenarios.js";

/** One place in the built code, found by its text, and what is there instead. */
export interface Edit {
  /** Below the repository's folder. */
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** How often it is there; 1 unless told. */
  readonly count?: number;
}

/** A mistake that somebody could make, for proof that the simulator would find it. */
export interface Mutation {
  readonly name: string;
  readonly mistake: string;
  /** It is found within so many seeds, from 1 on. */
  readonly withinSeeds: number;
  /** Only seeds that take this scenario are run; undefined: all. */
  readonly scenario?: ScenarioName;
  readonly edits: readonly Edit[];
}

export const AGENT = "services/disk-agent/dist/";
export const REGISTRY = "services/disk-registry/dist/";
