import type { StuckFleet } from "./stuck-fleet.js";

/** A stuck state of a healthy mesh, which its cure ends. */
export interface Situation {
  /** Name of the fault. Its alerts are tested when `FAULT_ALERTS` lists them. */
  readonly title: string;
  /** Returns why this machine cannot cause it; undefined when it can. */
  readonly problem?: () => string | undefined;
  make(mesh: StuckFleet): Promise<Stuck>;
}

/** A stuck object, and the expected explanation. */
export interface Stuck {
  /** Arguments of `diskmesh why`: kind and name. */
  readonly asked: readonly [kind: string, name: string];
  /** Matches the first line of the answer, which has the root cause with its error. */
  readonly root: RegExp;
  /** Reasons that the causes must contain in this order; others may be in between. */
  readonly reasons: readonly string[];
  /** Key of the first row on the page, and a pattern for its trouble. */
  readonly row: readonly [row: string, trouble: RegExp];
  /** Matches the cure to follow, with its command if it has one. */
  readonly cure: RegExp;
  /** Matches no cure, because the system would refuse it or it would do harm. */
  readonly refused?: RegExp;
  /** Called before each evaluation of the alerts, until the cure. */
  readonly meanwhile?: () => Promise<unknown>;
  /** Establishes a condition of the cure, before its command. */
  readonly first?: () => Promise<unknown>;
  /** Action of the cure when it has no command, or after its command. */
  readonly follow?: () => Promise<unknown>;
  /** Throws while the state is not healthy again. Default: until `why` shows no cause. */
  readonly cured?: () => Promise<unknown>;
  /** Restores the mesh to its former state. */
  readonly after?: () => Promise<unknown>;
}
