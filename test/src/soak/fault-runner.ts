import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "@diskmesh/domain";
import type { Fault } from "./faults.js";
import type { Planned } from "./schedule.js";
import type { SoakFleet } from "./soak-fleet.js";
import type { OwnExit } from "./supervised.js";
import type { Violations } from "./violations.js";

/** Time in ms after a fault's end in which a starting process may still fail because of it. */
const FELT_AFTER_MS = 60_000;

/** A fault that was executed. */
export interface Had {
  readonly fault: string;
  readonly target: string;
  readonly beginMs: number;
  endMs: number | undefined;
}

/** Executes the planned faults. */
export class FaultRunner {
  readonly had: Had[] = [];
  readonly #startedAtMs = performance.now();
  /** End of the last fault, by fault and target. */
  readonly #last = new Map<string, Promise<void>>();

  constructor(
    private readonly fleet: SoakFleet,
    private readonly faults: readonly Fault[],
    private readonly violations: Violations,
    private readonly report: (line: string) => void,
  ) {}

  /** Resolves when the last fault has ended. */
  async run(plan: readonly Planned[]): Promise<void> {
    const running: Promise<void>[] = [];
    for (const planned of [...plan].sort((a, b) => a.beginMs - b.beginMs)) {
      await delay(Math.max(0, planned.beginMs - this.#nowMs()));
      const key = `${planned.fault} ${planned.target}`;
      // The same fault on the same target waits for the former one's end.
      const work = (this.#last.get(key) ?? Promise.resolve()).then(() => this.#have(planned));
      this.#last.set(key, work);
      running.push(work);
    }
    await Promise.all(running);
  }

  /**
   * Returns the fault that explains the end of a process; undefined for none. A process that was up must wait instead
   * of ending.
   */
  excuseOf(exit: OwnExit): string | undefined {
    if (exit.wasUp) return undefined;
    const felt = this.had.filter(({ endMs }) => endMs === undefined || endMs + FELT_AFTER_MS > this.#nowMs());
    if (felt.some(({ fault, target }) => fault === "full disk" && target === exit.name))
      return "its disk was full when it started";
    const { name, database } = this.fleet.store;
    const usesDatabase = name === "mongodb" && /^(?:director|disk-registry)-/.test(exit.name);
    const wasWithout = felt.some(({ target }) => /\bdatabase\b/.test(target));
    return usesDatabase && database !== undefined && wasWithout ? "it found no database when it started" : undefined;
  }

  async #have({ fault: name, target, lengthMs }: Planned): Promise<void> {
    const fault = this.faults.find((one) => one.name === name);
    const had: Had = { fault: name, target, beginMs: this.#nowMs(), endMs: undefined };
    this.had.push(had);
    try {
      const end = await fault?.act(this.fleet, target);
      this.report(`${name}: ${target}, for ${(lengthMs / 1_000).toFixed(1)} s`);
      await delay(lengthMs);
      await end?.();
    } catch (error) {
      this.violations.add(`the soak itself: ${name} of ${target} failed: ${messageOf(error)}`);
    }
    had.endMs = this.#nowMs();
  }

  #nowMs(): number {
    return Math.round(performance.now() - this.#startedAtMs);
  }
}
