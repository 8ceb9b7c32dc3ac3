import { type Alert, type Logger, systemClock } from "@diskmesh/domain";

/** A dependency of a process, by its name in health checks. */
export type Need = "certificate" | "leader" | "database" | "nats" | "dispatcher" | "registered" | "descriptors";

interface NeedState {
  /** Undefined when nothing checks the dependency, e.g. connections of a standby. */
  readonly met: boolean | undefined;
  readonly why: string;
  /** Wall clock time of the last change. */
  readonly sinceMs: number;
}

/** State of a process as reported over gRPC and HTTP. */
export interface ReadinessReport {
  /** True when the process serves and all its dependencies are available. */
  readonly ready: boolean;
  /** True when the process answers calls of its services, possibly without some dependencies. */
  readonly serving: boolean;
  /** Missing dependencies with reasons; empty when ready. */
  readonly why: string;
  /** Address of the leader that this process stands by for; undefined when it does not stand by. */
  readonly standsByFor: string | undefined;
  /** Time of the takeover, unless the leader renews its lease before. */
  readonly takesOverAtMs: number | undefined;
  readonly needs: ReadonlyMap<Need, NeedState>;
  /** Remaining validity of the process's own certificate; undefined when unknown, and without one. */
  readonly certificateLeftMs: number | undefined;
  /** Alerts of the process's log that have not ended, by name, without those that a missing dependency tells. */
  readonly alerts: ReadonlyMap<string, Alert>;
}

export interface ReadinessOptions {
  readonly needs: readonly Need[];
  readonly log: Logger;
}

const NOT_YET = { met: false, why: "not yet" } as const;
const UNCHECKED = { met: undefined, why: "" } as const;

/** Alerts that say the same as a missing dependency. */
const TOLD_BY_NEEDS: Readonly<Record<string, Need>> = {
  certificate_ended: "certificate",
  store_refuses_writes: "database",
};

/** Tracks the dependencies of a process. Logs one line for each loss and one for each recovery. */
export class Readiness {
  readonly #log: Logger;
  readonly #needs: Map<Need, NeedState>;
  #certificateLeftMs: number | undefined;
  readonly #listeners: ((report: ReadinessReport) => void)[] = [];
  /** Dependencies whose loss was logged. The missing dependencies of a process that has just started are not logged. */
  readonly #lost = new Set<Need>();
  #serving = false;
  #standsByFor: string | undefined;
  #takesOverAtMs: number | undefined;

  constructor({ needs, log }: ReadinessOptions) {
    this.#log = log;
    this.#needs = new Map(needs.map((need) => [need, { ...NOT_YET, sinceMs: systemClock.nowMs() }]));
    log.alerts?.onChange(() => this.#tell());
  }

  /** Calls back now, and on every change. */
  onChange(listener: (report: ReadinessReport) => void): void {
    this.#listeners.push(listener);
    listener(this.report());
  }

  setServing(serving: boolean): void {
    if (this.#serving === serving) return;
    this.#serving = serving;
    this.#tell();
  }

  met(need: Need): void {
    this.#set(need, { met: true, why: "" });
    if (this.#lost.delete(need)) this.#log.info({ need }, `readiness condition restored: ${need}`);
  }

  /** Marks a need as missing; `why` points an operator to the cause. */
  missing(need: Need, why: string): void {
    if (!this.#set(need, { met: false, why })) return;
    this.#lost.add(need);
    this.#log.warn({ need, why }, `readiness condition lost: ${need} (${why})`);
  }

  /** Stops tracking a dependency that nothing checks any more. */
  forget(need: Need): void {
    this.#set(need, UNCHECKED);
  }

  /** Notes the remaining validity of the process's own certificate, which nobody is told of. */
  certificateLeft(leftMs: number): void {
    this.#certificateLeftMs = leftMs;
  }

  /** Sets the leader that the process stands by for; undefined ends standing by. */
  standsBy(leaderAddress: string | undefined): void {
    this.#takesOverAtMs = undefined;
    if (this.#standsByFor === leaderAddress) return;
    this.#standsByFor = leaderAddress;
    this.#tell();
  }

  /**
   * Sets the remaining time of the leader's lease. This process takes over after it, unless the leader renews the
   * lease.
   */
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
      certificateLeftMs: this.#certificateLeftMs,
      alerts: this.#alerts(lacks.map(([need]) => need)),
    };
  }

  #alerts(lacks: readonly Need[]): ReadonlyMap<string, Alert> {
    const current = this.#log.alerts?.current ?? new Map<string, Alert>();
    const isTold = (name: string) => lacks.some((need) => name === need || TOLD_BY_NEEDS[name] === need);
    return new Map([...current].filter(([name]) => !isTold(name)));
  }

  /**
   * Sets a state; returns true when the dependency was available before and is missing now. Ignores dependencies that
   * the process does not have.
   */
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
