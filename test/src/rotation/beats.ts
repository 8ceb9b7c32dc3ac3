import { AgentClient, connectNats, type NatsConnection } from "@diskmesh/mbus";
import type { TlsFiles } from "@diskmesh/rpc";
import { eventually } from "@diskmesh/testkit";
import { BEAT_INTERVAL_MS } from "./rotated-services.js";

/**
 * Maximum silence of an agent in ms. A VM's agent restarts with each new certificate, which takes longer on a busy
 * machine.
 */
const MAX_SILENCE_MS = 20 * BEAT_INTERVAL_MS;
const PATIENCE = { timeoutMs: 120_000 };

/**
 * Receives the heartbeats of all agents over NATS, as a director does, and records agents that were silent for too
 * long.
 */
export class Beats {
  /** Time of the last heartbeat by agent. */
  readonly #heardAtMs = new Map<string, number>();
  readonly failures: string[] = [];

  private constructor(
    private readonly nats: NatsConnection,
    private readonly client: AgentClient,
  ) {
    client.onHeartbeat((agentId) => this.#hear(agentId));
  }

  static async listen(natsAddress: string, tls: TlsFiles): Promise<Beats> {
    const nats = await connectNats({ servers: [natsAddress], tls, name: "the test" });
    await nats.whenConnected(AbortSignal.timeout(PATIENCE.timeoutMs));
    const limits = { requestTimeoutMs: 10_000, callTimeoutMs: 60_000, taskPollIntervalMs: 1_000 };
    return new Beats(nats, new AgentClient({ nats, directorId: "the-test", ...limits }));
  }

  /** Resolves when every agent has sent another heartbeat. */
  async another(): Promise<void> {
    const sinceMs = performance.now();
    await eventually(() => [...this.#heardAtMs.values()].every((atMs) => atMs > sinceMs), PATIENCE);
  }

  async close(): Promise<void> {
    this.client.close();
    await this.nats.close();
  }

  #hear(agentId: string): void {
    const nowMs = performance.now();
    const silentMs = nowMs - (this.#heardAtMs.get(agentId) ?? nowMs);
    this.#heardAtMs.set(agentId, nowMs);
    if (silentMs > MAX_SILENCE_MS) this.failures.push(`${agentId} was silent for ${Math.round(silentMs)} ms`);
  }
}
