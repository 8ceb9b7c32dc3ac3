import type { HostId } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";

/** When each host was last heard from. In memory only: after a takeover, silence counts from the load. */
export class Liveness {
  readonly #heard = new Map<HostId, { readonly monotonicMs: number; readonly atMs: number }>();
  readonly #loadedAtMonotonicMs: number;

  constructor(private readonly clock: Clock) {
    this.#loadedAtMonotonicMs = clock.monotonicMs();
  }

  hear(hostId: HostId): void {
    this.#heard.set(hostId, { monotonicMs: this.clock.monotonicMs(), atMs: this.clock.nowMs() });
  }

  silentForMs(hostId: HostId): number {
    return this.clock.monotonicMs() - (this.#heard.get(hostId)?.monotonicMs ?? this.#loadedAtMonotonicMs);
  }

  /** Undefined when it was not heard since the load. */
  lastHeardAtMs(hostId: HostId): number | undefined {
    return this.#heard.get(hostId)?.atMs;
  }

  forget(hostId: HostId): void {
    this.#heard.delete(hostId);
  }
}
