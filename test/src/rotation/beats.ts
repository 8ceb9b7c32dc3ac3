import type { AgentClient } from "@diskmesh/mbus";
import { eventually } from "@diskmesh/testkit";
import { BEAT_INTERVAL_MS } from "./rotated-services.js";

/**
 * Maximum silence of an agent in ms. A VM's agent restarts with each new certificate, which takes longer on a busy
 * machine.
 */
const MAX_SILENCE_MS = 20 * BEAT_INTERVAL_MS;

/**
 * Receives the heartbeats of all agents over NATS, as a director does, and records agents that were silent for too
 * long.
 */
export class Beats {
  /** Time of the last heartbeat by agent. */
  readonly #heardAtMs = new Map<string, number>();
  readonly failures: string[] = [];

  constructor(agents: AgentClient) {
    agents.onHeartbeat((agentId) => this.#hear(agentId));
  }

  /** Resolves when every agent has sent another heartbeat. */
  async another(): Promise<void> {
    const sinceMs = performance.now();
    await eventually(() => [...this.#heardAtMs.values()].every((atMs) => atMs > sinceMs));
  }

  #hear(agentId: string): void {
    const nowMs = performance.now();
    const silentMs = nowMs - (this.#heardAtMs.get(agentId) ?? nowMs);
    this.#heardAtMs.set(agentId, nowMs);
    if (silentMs > MAX_SILENCE_MS) this.failures.push(`${agentId} was silent for ${Math.round(silentMs)} ms`);
  }
}
