import { type AgentMemory, emptyMemory } from "../model/memory.js";
import type { CacheFile } from "./cache-file.js";

/** The agent's memory now, and the way to make it durable. */
export class Ledger {
  readonly #file: CacheFile<AgentMemory>;
  #memory: AgentMemory;

  constructor(memory: AgentMemory, file: CacheFile<AgentMemory>) {
    this.#memory = memory;
    this.#file = file;
  }

  /** What was decided last; it may not be durable yet. What it forbids is forbidden at once. */
  get memory(): AgentMemory {
    return this.#memory;
  }

  /** Takes a decision's memory. Nobody may act on it, or hear of it, before `durable` has resolved. */
  remember(memory: AgentMemory): void {
    this.#memory = memory;
  }

  /** What is on disk: nothing that was remembered since was acted upon. */
  get stored(): AgentMemory {
    return this.#file.stored ?? emptyMemory(this.#memory.hostId);
  }

  /** Why nothing can be remembered now; undefined when it can, as far as was tried. */
  get problem(): string | undefined {
    return this.#file.problem;
  }

  /** Tries whether something could be remembered. */
  check(): Promise<void> {
    return this.#file.check();
  }

  /** Leaves the cache as the release before reads it. Nothing is remembered any more. */
  close(): Promise<void> {
    return this.#file.close();
  }

  /** Resolves once all that was remembered so far is on disk, with that. */
  async durable(): Promise<AgentMemory> {
    const memory = this.#memory;
    await this.#file.store(memory);
    return memory;
  }
}
