import type { Fault } from "../metrics/fault-alerts.js";
import type { StuckFleet } from "./stuck-fleet.js";

/** A way in which something is stuck, made on a mesh that is well, and by its cure well again. */
export interface Situation {
  /** The operator's name of the fault; `FAULT_ALERTS` says which alerts it fires. */
  readonly title: Fault;
  /** Why it cannot be made here; undefined when it can. */
  readonly problem?: () => string | undefined;
  make(mesh: StuckFleet): Promise<Stuck>;
}

/** A stuck object, and what must be said of it. */
export interface Stuck {
  /** The arguments of `diskmesh why`: the kind and the name. */
  readonly asked: readonly [kind: string, name: string];
  /** The first line of the answer: the cause with its error. */
  readonly root: RegExp;
  /** In the causes, in this order, beside others. */
  readonly reasons: readonly string[];
  /** The first row of the page. */
  readonly row: readonly [row: string, trouble: RegExp];
  /** The cure that is followed, among those that `why` names: what it is good for, and its command if it has one. */
  readonly cure: RegExp;
  /** Repeated before each look at the alerts until the cure. */
  readonly meanwhile?: () => Promise<unknown>;
  /** A condition of the cure that is made true before its command. */
  readonly first?: () => Promise<unknown>;
  /** The cure's deed where it is no command, or the deed that follows its command. */
  readonly follow?: () => Promise<unknown>;
  /** Throws while it is not well again; by default it is once no cause is told any more. */
  readonly cured?: () => Promise<unknown>;
  /** Leaves the mesh as it was found. */
  readonly after?: () => Promise<unknown>;
}
