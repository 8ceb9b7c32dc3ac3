import type { Clock } from "@diskmesh/service";
import type { AgentLimits } from "../base/limits.js";

/** Heartbeats without an answer after which a registry with long intervals counts as silent. */
const MISSED_HEARTBEATS = 3;

/** How this agent and its registry reach each other. */
export class RegistryContact {
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #limits: Pick<AgentLimits, "registrySilenceMs">;
  #heartbeatIntervalMs = 0;
  /** The start counts, because a registry that lives answers soon. */
  #heardAtMs: number;
  /** Address at which others reach this agent; empty before its server listens. */
  address = "";

  constructor(clock: Pick<Clock, "monotonicMs">, limits: Pick<AgentLimits, "registrySilenceMs">) {
    this.#clock = clock;
    this.#limits = limits;
    this.#heardAtMs = clock.monotonicMs();
  }

  /** Notes that a registry has accepted a registration or a heartbeat just now. */
  noteHeard(heartbeatIntervalMs: number): void {
    this.#heardAtMs = this.#clock.monotonicMs();
    this.#heartbeatIntervalMs = heartbeatIntervalMs;
  }

  /** Returns for how many ms the registry must still be silent until it counts as gone; 0 when it does. */
  get untilSilentMs(): number {
    const silenceMs = Math.max(this.#limits.registrySilenceMs, MISSED_HEARTBEATS * this.#heartbeatIntervalMs);
    return Math.max(0, Math.ceil(this.#heardAtMs + silenceMs - this.#clock.monotonicMs()));
  }
}
