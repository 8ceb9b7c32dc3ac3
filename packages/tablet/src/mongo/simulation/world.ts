import { randomOf } from "../../contract/random.js";
import type { TabletClock } from "../../storage/clock.js";
import { SharedDocuments } from "./shared-documents.js";

/** Probability of each fault, per step or operation. */
export interface Faults {
  readonly crash: number;
  readonly pause: number;
  /** Lost answer of an operation. The operation ran, never arrives, or arrives later, possibly twice. */
  readonly loss: number;
  /** Pause of a process between deciding on an operation and sending it. */
  readonly lateSend: number;
  /** Pause of a process while its answer is on the way. */
  readonly lateAnswer: number;
  readonly start: number;
  /** Clean stop of a leader, per received call. */
  readonly stop: number;
  /** Long period in which no process gets an answer. */
  readonly outage: number;
  /** Manual deletion or replacement of a document of the view. */
  readonly tamper: number;
  /** The server refuses one of several writes to the view. */
  readonly refusal: number;
  /** Request for a backup, per call received by a leader. */
  readonly backup: number;
  /** Restore of a backup by a starting process. */
  readonly restore: number;
  /** Before a restore all other processes are stopped and the database is dropped. */
  readonly drop: number;
}

const USUAL: Faults = {
  crash: 0.004,
  pause: 0.008,
  loss: 0.04,
  lateSend: 0,
  lateAnswer: 0.01,
  start: 0.01,
  stop: 0.02,
  outage: 0,
  tamper: 0,
  refusal: 0,
  backup: 0,
  restore: 0,
  drop: 0,
};

/** Sets of fault rates. Each set exercises different rules of the protocol. */
export const CLIMATES = {
  usual: USUAL,
  lossy: { ...USUAL, crash: 0.001, pause: 0.001, loss: 0.1, start: 0.02 },
  sleepy: { ...USUAL, crash: 0.001, pause: 0.012, loss: 0.01, lateAnswer: 0.06, start: 0.02 },
  crowded: { ...USUAL, crash: 0.001, pause: 0.012, loss: 0.01, start: 0.1 },
  restless: { ...USUAL, crash: 0.001, loss: 0.02, lateSend: 0.02, start: 0.1, stop: 0.1 },
  tampered: { ...USUAL, start: 0.05, stop: 0.1, tamper: 0.002 },
  throttled: { ...USUAL, refusal: 0.1 },
  restored: { ...USUAL, crash: 0.002, loss: 0.02, lateSend: 0.01, start: 0.04, stop: 0.05, backup: 0.1, restore: 0.3 },
  dropped: { ...USUAL, crash: 0.002, loss: 0.1, start: 0.04, stop: 0.05, backup: 0.1, restore: 0.2, drop: 0.5 },
  outages: { ...USUAL, crash: 0.001, loss: 0.01, outage: 0.002 },
} satisfies Record<string, Faults>;

export type Climate = keyof typeof CLIMATES;

/** A write that the server may still receive, possibly again. */
export interface LateWrite {
  readonly collection: string;
  readonly id: string | number;
  run(): void;
}

/** An operation or timer that a process waits for. A step of the world advances one of them. */
interface Pending {
  readonly isDue: () => boolean;
  /** Writes that were sent and may still arrive after the process has ended. */
  readonly unsent: () => readonly LateWrite[];
  step(): void;
}

const PROCESSES_MAX = 4;
const PAUSE_STEPS_MIN = 20;
const PAUSE_STEPS_SPREAD = 400;
const OUTAGE_STEPS_MAX = 1_500;

/**
 * Processes on one simulated server. In each step all clocks tick and one operation or timer of one process advances;
 * the seed decides which.
 */
export class World {
  readonly documents = new SharedDocuments();
  readonly faults: Faults;
  readonly counts: Record<string, number> = {};
  readonly #random: () => number;
  readonly #late: LateWrite[] = [];
  #processes: SimulatedProcess[] = [];
  #now = 0;
  #outageUntil = 0;
  #violation: unknown;

  constructor(seed: number, faults: Faults) {
    this.#random = randomOf(seed);
    this.faults = faults;
  }

  get now(): number {
    return this.#now;
  }

  happens(probability: number): boolean {
    return this.#random() < probability;
  }

  loses(): boolean {
    return this.#now < this.#outageUntil || this.happens(this.faults.loss);
  }

  below(limit: number): number {
    return Math.floor(this.#random() * limit);
  }

  count(name: string): void {
    this.counts[name] = (this.counts[name] ?? 0) + 1;
  }

  violate(violation: unknown): void {
    this.#violation ??= violation;
  }

  sendLate(writes: readonly LateWrite[]): void {
    this.#late.push(...writes);
  }

  /** Delivers a late write of that document now; returns false when there is none. */
  overtake(collection: string, id: string | number): boolean {
    const index = this.#late.findIndex((late) => late.collection === collection && late.id === id);
    if (index < 0) return false;
    this.#late.splice(index, 1)[0]?.run();
    return true;
  }

  /** Runs the given number of steps. Throws when an invariant is violated. */
  async run(steps: number, program: (process: SimulatedProcess) => Promise<void>): Promise<void> {
    for (; this.#now < steps && this.#violation === undefined; this.#now++) {
      if (this.#processes.length === 0 || (this.#processes.length < PROCESSES_MAX && this.happens(this.faults.start))) {
        this.#start(program);
        await settle();
      }
      if (this.happens(this.faults.outage)) this.#outageUntil = this.#now + this.below(OUTAGE_STEPS_MAX);
      if (this.happens(this.faults.tamper)) {
        this.count("tampered");
        this.documents.tamper((limit) => this.below(limit));
      }
      if (this.#late.length > 0 && this.happens(0.03)) {
        this.count("lateWrites");
        this.#attempt(() => this.#late.splice(this.below(this.#late.length), 1)[0]?.run());
      }
      if (this.#stepOf(this.#processes[this.below(this.#processes.length)] as SimulatedProcess)) await settle();
    }
    if (this.#violation !== undefined) throw this.#violation;
  }

  /** Returns true when an event was delivered to the process. */
  #stepOf(process: SimulatedProcess): boolean {
    if (process.pausedSteps > 0) {
      process.pausedSteps--;
      return false;
    }
    if (this.happens(this.faults.crash)) {
      this.count("crashes");
      this.end(process);
      return false;
    }
    if (this.happens(this.faults.pause)) {
      this.pause(process);
      return false;
    }
    const due = process.pending.filter((pending) => pending.isDue());
    if (due.length === 0) return false;
    this.#attempt(() => due[this.below(due.length)]?.step());
    return true;
  }

  pause(process: SimulatedProcess): void {
    process.pausedSteps = PAUSE_STEPS_MIN + this.below(PAUSE_STEPS_SPREAD);
  }

  /** Ends all other processes and drops the database. Writes that they sent may still arrive. */
  dropDatabase(by: SimulatedProcess): void {
    this.count("drops");
    for (const process of this.#processes) if (process !== by) this.end(process);
    this.documents.drop();
    for (const [index, { run, ...late }] of this.#late.entries())
      this.#late[index] = { ...late, run: () => this.documents.runFormer(run) };
  }

  /** Ends a process. Most of the writes that it sent may still arrive. */
  end(process: SimulatedProcess): void {
    this.#processes = this.#processes.filter((other) => other !== process);
    for (const pending of process.pending.splice(0)) {
      this.sendLate(pending.unsent().filter(() => this.happens(0.7)));
    }
  }

  #start(program: (process: SimulatedProcess) => Promise<void>): void {
    const process = new SimulatedProcess(this);
    this.#processes.push(process);
    program(process)
      .catch((error) => this.violate(error))
      .finally(() => this.end(process));
  }

  #attempt(action: () => void): void {
    try {
      action();
    } catch (error) {
      this.violate(error);
    }
  }
}

/** One process of the world: its clock, and its pending operations. */
export class SimulatedProcess {
  readonly world: World;
  readonly pending: Pending[] = [];
  readonly clock: TabletClock;
  pausedSteps = 0;
  isRestore = false;

  constructor(world: World) {
    this.world = world;
    this.clock = {
      nowMs: () => world.now,
      monotonicMs: () => world.now,
      after: (delayMs, action) => this.#after(delayMs, action),
      // A tick queued from a microtask runs after all microtasks and before the next step.
      afterTurn: (action) => queueMicrotask(() => process.nextTick(action)),
    };
  }

  wait(pending: Pending): void {
    this.pending.push(pending);
  }

  done(pending: Pending): void {
    const index = this.pending.indexOf(pending);
    if (index >= 0) this.pending.splice(index, 1);
  }

  #after(delayMs: number, action: () => void): () => void {
    const atMs = this.world.now + delayMs;
    const timer: Pending = {
      isDue: () => this.world.now >= atMs,
      unsent: () => [],
      step: () => {
        this.done(timer);
        action();
      },
    };
    this.wait(timer);
    return () => this.done(timer);
  }
}

/** Resolves when all code triggered by the last event has run. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
