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

  /**
   * Memory after the last decision, which may not be durable yet. The agent refuses at once what this memory forbids.
   */
  get memory(): AgentMemory {
    return this.#memory;
  }

  /**
   * Replaces the memory by a decision's result. The caller acts on or reports the decision only after `durable` has
   * resolved.
   */
  remember(memory: AgentMemory): void {
    this.#memory = memory;
  }

  /** Memory on disk. The agent has not acted on later decisions. */
  get stored(): AgentMemory {
    return this.#file.stored ?? emptyMemory(this.#memory.hostId);
  }

  /** Reason why the last write failed; undefined when it succeeded. */
  get problem(): string | undefined {
    return this.#file.problem;
  }

  /** Writes the memory again, to test whether it can be stored. */
  check(): Promise<void> {
    return this.#file.check();
  }

  /** Closes the cache's file. Nothing can be remembered afterwards. */
  close(): Promise<void> {
    return this.#file.close();
  }

  /** Resolves once the present memory is on disk, and returns it. */
  async durable(): Promise<AgentMemory> {
    const memory = this.#memory;
    await this.#file.store(memory);
    return memory;
  }
}
