import { type AgentMemory, emptyMemory } from "../model/memory.js";
import type { CacheFile } from "./cache-file.js";

/** The agent's memory, and the operations that make it durable. */
export class Ledger {
  readonly #file: CacheFile<AgentMemory>;
  #memory: AgentMemory;

  constructor(memory: AgentMemory, file: CacheFile<AgentMemory>) {
    this.#memory = memory;
    this.#file = file;
  }

  /** Last decided memory, which may not be durable yet. Its prohibitions apply at once. */
  get memory(): AgentMemory {
    return this.#memory;
  }

  /** Takes over a decision's memory. The decision must not be acted on or reported before `durable` has resolved. */
  remember(memory: AgentMemory): void {
    this.#memory = memory;
  }

  /** Memory on disk: nothing remembered since was acted on. */
  get stored(): AgentMemory {
    return this.#file.stored ?? emptyMemory(this.#memory.hostId);
  }

  /** Reason why nothing can be stored now; undefined when the last try succeeded. */
  get problem(): string | undefined {
    return this.#file.problem;
  }

  /** Tests whether the memory can be stored. */
  check(): Promise<void> {
    return this.#file.check();
  }

  /** Rewrites the cache so that the previous release can read it. Nothing can be remembered afterwards. */
  close(): Promise<void> {
    return this.#file.close();
  }

  /** Resolves with the stored memory once everything remembered so far is on disk. */
  async durable(): Promise<AgentMemory> {
    const memory = this.#memory;
    await this.#file.store(memory);
    return memory;
  }
}
