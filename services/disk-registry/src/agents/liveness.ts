import type { HostId } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { WhySuspected } from "../model/disks/placement.js";

interface Heard {
  readonly listenedMs: number;
  readonly atMs: number;
  /** The start that registered last; undefined when none has since the load. */
  readonly bootId: string | undefined;
  readonly hasBeaten: boolean;
}

/** When each host was last heard from. In memory only: after a takeover, silence counts from the load. */
export class Liveness {
  readonly #heard = new Map<HostId, Heard>();
  readonly #listenedAtLoadMs: number;
  #deafMs = 0;
  #listenedBeforeMs = 0;

  constructor(
    private readonly clock: Clock,
    private readonly beat: {
      readonly intervalMs: number;
      readonly timeoutMs: number;
      readonly missedUntilSuspected: number;
    },
  ) {
    this.#listenedAtLoadMs = this.#listenedMs();
  }

  /** A heartbeat came. */
  hear(hostId: HostId): void {
    const bootId = this.#heard.get(hostId)?.bootId;
    this.#heard.set(hostId, { listenedMs: this.#listenedMs(), atMs: this.clock.nowMs(), bootId, hasBeaten: true });
  }

  hearRegistration(hostId: HostId, bootId: string): void {
    const before = this.#heard.get(hostId);
    const hasBeaten = before?.bootId === bootId && before.hasBeaten;
    this.#heard.set(hostId, { listenedMs: this.#listenedMs(), atMs: this.clock.nowMs(), bootId, hasBeaten });
  }

  /** Returns whether the start of its agent that registered last lives. One that never beats may have ended before it was answered. */
  isInPlace(hostId: HostId): boolean {
    const { intervalMs, missedUntilSuspected, timeoutMs } = this.beat;
    const hasBeaten = this.#heard.get(hostId)?.hasBeaten ?? true;
    const waitMs = hasBeaten ? timeoutMs : Math.min(timeoutMs, intervalMs * missedUntilSuspected);
    return this.silentForMs(hostId) <= waitMs;
  }

  /** Counts on from how long the leaders before could hear hosts. */
  goOnFrom(listenedBeforeMs: number): void {
    this.#listenedBeforeMs = listenedBeforeMs;
  }

  /** `Vigil.listenedMs` up to now, in whole milliseconds. */
  get totalListenedMs(): number {
    return this.#listenedBeforeMs + Math.floor(this.#listenedMs() - this.#listenedAtLoadMs);
  }

  /** This process was too busy to hear anybody for so long: that was no host's silence. */
  wasDeaf(ms: number): void {
    this.#deafMs += ms;
  }

  silentForMs(hostId: HostId): number {
    return this.#listenedMs() - (this.#heard.get(hostId)?.listenedMs ?? this.#listenedAtLoadMs);
  }

  /** Why nothing new is to go to the host now; undefined when it beats as it should. */
  readonly whySuspected: WhySuspected = (hostId) => {
    const { intervalMs, missedUntilSuspected } = this.beat;
    if (this.silentForMs(hostId) <= intervalMs * missedUntilSuspected) return undefined;
    return `host ${hostId} is suspected of silence: ${missedUntilSuspected} heartbeats in a row are missing`;
  };

  /** Returns whether the host was not heard since the load, and has had no time for it. */
  readonly mayYetBeHeard = (hostId: HostId): boolean =>
    !this.#heard.has(hostId) && this.silentForMs(hostId) <= this.beat.timeoutMs;

  /** Undefined when it was not heard since the load. */
  lastHeardAtMs(hostId: HostId): number | undefined {
    return this.#heard.get(hostId)?.atMs;
  }

  forget(hostId: HostId): void {
    this.#heard.delete(hostId);
  }

  #listenedMs(): number {
    return this.clock.monotonicMs() - this.#deafMs;
  }
}
