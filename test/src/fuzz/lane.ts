import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "@diskmesh/domain";
import { inputAt } from "./input-at.js";
import type { Surface } from "./surface.js";

/** Range of input indexes of a seed. */
export interface InputRange {
  readonly seed: number;
  /** First index; negative indexes select kept inputs (see seeds.ts). */
  readonly first: number;
  /** Last index, inclusive; undefined for no end. */
  readonly last?: number;
}

/** A fault that the surface itself detected. */
export interface SurfaceFind {
  readonly index: number;
  readonly what: string;
}

const PAUSED_LOOK_MS = 20;
const SUSPECTS_MAX = 40;

/** Sends the inputs of a surface, sequentially or some concurrently, until it is stopped or has sent the last input. */
export class Lane {
  sent = 0;
  /** While true, no new input is sent. */
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

  /** Returns the indexes of inputs in progress and of the last sent ones, one of which caused a present fault. */
  suspects(): readonly number[] {
    return [...this.#recent];
  }

  /** Returns the input with that index. */
  inputAt(index: number): Buffer {
    return inputAt(this.surface, this.range.seed, index);
  }

  /** Resolves when the lane has ended. */
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
      // Yields to timers, because calls fail at once when their server is gone.
      await nextTurn();
    }
  }
}
