import type { Instance } from "../store/instance.js";
import type { DirectorTablet } from "../store/stored-schema.js";

/** The VM agents that NATS admits, and their key pins. An agent is admitted when its instance records a certificate. */
export class AgentUsers {
  readonly #pins = new Map<string, readonly string[]>();
  readonly #agentOf = new Map<string, string>();
  readonly #listeners = new Set<() => void>();
  #unwatch = () => {};

  async start(tablet: DirectorTablet): Promise<void> {
    this.#unwatch = tablet.watch((changes) => {
      let isChanged = false;
      for (const { table, key, document } of changes)
        if (table === "instances") isChanged = this.#note(key, document as Instance | null) || isChanged;
        else if (table === "agentAuthorities") isChanged = true;
      if (isChanged) for (const listener of this.#listeners) listener();
    });
    await tablet.read((tables) => {
      for (const instance of tables.instances.entries()) this.#note(instance.instanceId, instance);
    });
  }

  close(): void {
    this.#unwatch();
  }

  /**
   * Calls the listener when an agent is added or removed, or when its keys change. Returns a function that removes the
   * listener.
   */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Returns the pins of the agent's accepted keys; empty for an unknown agent. */
  pinsOf(agentId: string): readonly string[] {
    return this.#pins.get(agentId) ?? [];
  }

  /** Returns true when the change affects the admitted agents or keys. */
  #note(instanceId: string, instance: Instance | null): boolean {
    const before = this.#agentOf.get(instanceId);
    const { agentId = "", vmToken = "", agentKeys = [] } = instance ?? {};
    const now = agentKeys.length > 0 ? agentId || vmToken : undefined;
    const pins = agentKeys.map(({ pin }) => pin);
    if (before === now && (now === undefined || pins.join() === this.pinsOf(now).join())) return false;
    if (before !== undefined) this.#pins.delete(before);
    if (now === undefined) this.#agentOf.delete(instanceId);
    else {
      this.#agentOf.set(instanceId, now);
      this.#pins.set(now, pins);
    }
    return true;
  }
}
