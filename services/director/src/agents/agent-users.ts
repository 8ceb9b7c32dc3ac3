import type { Instance } from "../store/instance.js";
import type { DirectorTablet } from "../store/stored-schema.js";

/** The agents of VMs whom NATS lets in, and by which keys: those for which an instance records a certificate. */
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

  /** Calls back when somebody comes, goes or gets another key. Returns how to stop that. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The keys by which an agent may come; none for one that is not known. */
  pinsOf(agentId: string): readonly string[] {
    return this.#pins.get(agentId) ?? [];
  }

  /** True when that changes who may come. */
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
