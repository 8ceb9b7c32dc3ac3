import type { Logger } from "@diskmesh/domain";
import { systemClock } from "@diskmesh/domain";

/** What a process may need to do its work: the name that health checks ask for. */
export type Need = "certificate" | "leader" | "database" | "nats" | "dispatcher" | "registered";

interface NeedState {
  /** Undefined: nobody looks at it, as at a standby's connections. */
  readonly met: boolean | undefined;
  readonly why: string;
  /** Since when it is met, or is not; by the wall clock. */
  readonly sinceMs: number;
}

/** What is told of a process, over gRPC and HTTP alike. */
export interface ReadinessReport {
  /** Whether it does all its work: it serves, and has all that it needs. */
  readonly ready: boolean;
  /** Whether its own services are answered, with all or without some of what they need. */
  readonly serving: boolean;
  /** What it lacks, each with why; empty when it is ready. */
  readonly why: string;
  /** Where the leader is that this process stands by for; undefined when it does not stand by. */
  readonly standsByFor: string | undefined;
  /** When it takes over, unless the leader's lease is renewed before. */
  readonly takesOverAtMs: number | undefined;
  readonly needs: ReadonlyMap<Need, NeedState>;
}

export interface ReadinessOptions {
  readonly needs: readonly Need[];
  readonly log: Logger;
}

const NOT_YET = { met: false, why: "not yet" } as const;
const NOBODY_LOOKS = { met: undefined, why: "" } as const;

/** Whether a process has what it needs. Each loss is one line in the log, and so is its end. */
export class Readiness {
  readonly #log: Logger;
  readonly #needs: Map<Need, NeedState>;
  readonly #listeners: ((report: ReadinessReport) => void)[] = [];
  /** Those whose loss the log was told of: a process that has just started lacks everything. */
  readonly #lost = new Set<Need>();
  #serving = false;
  #standsByFor: string | undefined;
  #takesOverAtMs: number | undefined;

  constructor({ needs, log }: ReadinessOptions) {
    this.#log = log;
    this.#needs = new Map(needs.map((need) => [need, { ...NOT_YET, sinceMs: systemClock.nowMs() }]));
  }

  /** Calls back now, and whenever something changes. */
  onChange(listener: (report: ReadinessReport) => void): void {
    this.#listeners.push(listener);
    listener(this.report());
  }

  setServing(serving: boolean): void {
    if (this.#serving === serving) return;
    this.#serving = serving;
    this.#tell();
  }

  /** The process has it. */
  met(need: Need): void {
    this.#set(need, { met: true, why: "" });
    if (this.#lost.delete(need)) this.#log.info({ need }, `${need}: there again`);
  }

  /** The process lacks it; `why` says what an operator can look at. */
  missing(need: Need, why: string): void {
    if (!this.#set(need, { met: false, why })) return;
    this.#lost.add(need);
    this.#log.warn({ need, why }, `not ready for want of ${need}: ${why}`);
  }

  /** Nobody looks at it any more. */
  forget(need: Need): void {
    this.#set(need, NOBODY_LOOKS);
  }

  /** The process stands by for a leader, or no more. */
  standsBy(leaderAddress: string | undefined): void {
    this.#takesOverAtMs = undefined;
    if (this.#standsByFor === leaderAddress) return;
    this.#standsByFor = leaderAddress;
    this.#tell();
  }

  /** Standing by, it has seen for how long the leader's lease may still go without being renewed. */
  takesOverIn(leftMs: number): void {
    this.#takesOverAtMs = systemClock.nowMs() + leftMs;
  }

  report(): ReadinessReport {
    const lacks = [...this.#needs].filter(([, { met }]) => met !== true);
    const whys = lacks.filter(([, { met }]) => met === false).map(([need, { why }]) => `${need}: ${why}`);
    if (!this.#serving && whys.length === 0) whys.push("it does not serve now");
    const ready = this.#serving && lacks.length === 0;
    return {
      ready,
      serving: this.#serving,
      why: ready ? "" : whys.join("; "),
      standsByFor: this.#standsByFor,
      takesOverAtMs: this.#takesOverAtMs,
      needs: this.#needs,
    };
  }

  /** Returns whether it was met before, and is no more. What the process does not need is not kept. */
  #set(need: Need, state: Omit<NeedState, "sinceMs">): boolean {
    const before = this.#needs.get(need);
    if (before === undefined || (before.met === state.met && before.why === state.why)) return false;
    const sinceMs = before.met === state.met ? before.sinceMs : systemClock.nowMs();
    this.#needs.set(need, { ...state, sinceMs });
    this.#tell();
    return before.met === true;
  }

  #tell(): void {
    const report = this.report();
    for (const listener of this.#listeners) listener(report);
  }
}
