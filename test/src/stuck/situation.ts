import type { Fault } from "../metrics/fault-alerts.js";
import type { StuckFleet } from "./stuck-fleet.js";

/** A way in which something is stuck, made on a mesh that is well, and by its cure well again. */
export interface Situation {
  /** What an operator would call it; `FAULT_ALERTS` says which alerts fire then. */
  readonly title: Fault;
  /** Why it cannot be made here; undefined when it can. */
  readonly problem?: () => string | undefined;
  make(mesh: StuckFleet): Promise<Stuck>;
}

/** What is stuck, and what must be said of it. */
export interface Stuck {
  /** What `diskmesh why` is asked about: the kind, and the name. */
  readonly asked: readonly [kind: string, name: string];
  /** What it comes to, in the first line: who, and with which error. */
  readonly root: RegExp;
  /** In the causes, in this order, beside others. */
  readonly reasons: readonly string[];
  /** What the page has on top. */
  readonly row: readonly [row: string, trouble: RegExp];
  /** Of the ways out that `why` names, the one that is taken: what it is good for, and its command if it has one. */
  readonly cure: RegExp;
  /** What goes on until it is cured: done again before each look at the alerts. */
  readonly meanwhile?: () => Promise<unknown>;
  /** What the cure takes for done before its command. */
  readonly first?: () => Promise<unknown>;
  /** What the cure says, where it is no command; or what it says to do after it. */
  readonly follow?: () => Promise<unknown>;
  /** Throws while it is not well again; by default it is once no cause is told any more. */
  readonly cured?: () => Promise<unknown>;
  /** Leaves the mesh as it was found. */
  readonly after?: () => Promise<unknown>;
}
