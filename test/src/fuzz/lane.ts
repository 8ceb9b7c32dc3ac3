import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "@diskmesh/domain";
import { inputAt } from "./input-at.js";
import type { Surface } from "./surface.js";

/** Which inputs of a seed are sent. */
export interface InputRange {
  readonly seed: number;
  /** Below 0 for some of those that are kept. */
  readonly first: number;
  /** Not above it; undefined for no end. */
  readonly last?: number;
}

/** A fault that a surface noticed by itself. */
export interface SurfaceFind {
  readonly index: number;
  readonly what: string;
}

/** Sends the inputs of one surface, one after the other or some at once, until it is stopped or has sent the last. */
export interface Lane {
  readonly name: string;
  readonly sent: number;
  readonly counts: ReadonlyMap<string, number>;
  /** Indexes of what is under way, and of what was sent just before: one of them did what is seen now. */
  suspects(): readonly number[];
  /** The input of an index. */
  inputAt(index: number): Buffer;
  /** Resolves when it has ended. */
  run(onFind: (find: SurfaceFind) => void): Promise<void>;
  /** While true nothing new is sent. */
  paused: boolean;
  stop(): void;
}

const PAUSED_LOOK_MS = 20;
const SUSPECTS_MAX = 40;

/** A lane in this thread, for surfaces that wait for others most of the time. */
export class LocalLane implements Lane {
  sent = 0;
  paused = false;
  #next: number;
  #stopped = false;
  readonly #recent: number[] = [];

  constructor(
    private readonly surface: Surface,
    private readonly range: InputRange,
  ) {
    this.#next = range.first;
  }

  get name(): string {
    return this.surface.name;
  }

  get counts(): ReadonlyMap<string, number> {
    return this.surface.counts ?? new Map();
  }

  suspects(): readonly number[] {
    return [...this.#recent];
  }

  inputAt(index: number): Buffer {
    return inputAt(this.surface, this.range.seed, index);
  }

  async run(onFind: (find: SurfaceFind) => void): Promise<void> {
    await Promise.all(Array.from({ length: this.surface.atOnce }, () => this.#work(onFind)));
    await this.surface.close?.();
  }

  stop(): void {
    this.#stopped = true;
  }

  async #work(onFind: (find: SurfaceFind) => void): Promise<void> {
    const { last = Number.POSITIVE_INFINITY } = this.range;
    while (!this.#stopped) {
      if (this.paused) {
        await sleep(PAUSED_LOOK_MS);
        continue;
      }
      const index = this.#next++;
      if (index > last) return;
      this.#recent.push(index);
      if (this.#recent.length > SUSPECTS_MAX) this.#recent.shift();
      try {
        await this.surface.send(this.inputAt(index));
      } catch (error) {
        onFind({ index, what: messageOf(error) });
      }
      this.sent++;
      // A call that fails at once, because its server is gone, must not starve the timers.
      await nextTurn();
    }
  }
}
