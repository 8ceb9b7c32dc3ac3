import type { HostId } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { WhySuspected } from "../model/disks/placement.js";
import { type MissingNeed, stillMissing } from "../model/hosts/agent-needs.js";

interface Heard {
  readonly listenedMs: number;
  readonly atMs: number;
  /** Boot id of the last registration since this process loaded the tablet; undefined when there was none. */
  readonly bootId: string | undefined;
  readonly hasBeaten: boolean;
  readonly missingNeeds: readonly MissingNeed[];
}

/**
 * Tracks when each host was last heard (heartbeat or registration). Kept in memory only: after a takeover, silence
 * counts from the load of the tablet.
 */
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

  /** Records a heartbeat. Returns whether the agent lacks something else than before. */
  hear(hostId: HostId, missing: readonly MissingNeed[] = []): boolean {
    const { bootId, missingNeeds: before = [] } = this.#heard.get(hostId) ?? { bootId: undefined };
    const missingNeeds = stillMissing(before, missing);
    const [listenedMs, atMs] = [this.#listenedMs(), this.clock.nowMs()];
    this.#heard.set(hostId, { listenedMs, atMs, bootId, hasBeaten: true, missingNeeds });
    return missingNeeds.length !== before.length || missingNeeds.some((need, at) => need !== before[at]);
  }

  /** Returns what the host's agent lacks, by its last heartbeat. */
  missingNeedsOf(hostId: HostId): readonly MissingNeed[] {
    return this.#heard.get(hostId)?.missingNeeds ?? [];
  }

  hearRegistration(hostId: HostId, bootId: string): void {
    const before = this.#heard.get(hostId);
    const hasBeaten = before?.bootId === bootId && before.hasBeaten;
    const missingNeeds = before?.missingNeeds ?? [];
    const [listenedMs, atMs] = [this.#listenedMs(), this.clock.nowMs()];
    this.#heard.set(hostId, { listenedMs, atMs, bootId, hasBeaten, missingNeeds });
  }

  /**
   * Returns whether the agent start that registered last still counts as running. A start without a heartbeat gets a
   * shorter timeout, because it may have ended before its registration was answered.
   */
  isInPlace(hostId: HostId): boolean {
    const { intervalMs, missedUntilSuspected, timeoutMs } = this.beat;
    const hasBeaten = this.#heard.get(hostId)?.hasBeaten ?? true;
    const waitMs = hasBeaten ? timeoutMs : Math.min(timeoutMs, intervalMs * missedUntilSuspected);
    return this.silentForMs(hostId) <= waitMs;
  }

  /** Adds the listening time that former leaders recorded. */
  goOnFrom(listenedBeforeMs: number): void {
    this.#listenedBeforeMs = listenedBeforeMs;
  }

  /** Total time in whole milliseconds for which leaders of this tablet have listened for heartbeats, up to now. */
  get totalListenedMs(): number {
    return this.#listenedBeforeMs + Math.floor(this.#listenedMs() - this.#listenedAtLoadMs);
  }

  /** Excludes `ms` from the silence of every host, because this process was too busy to read heartbeats. */
  wasDeaf(ms: number): void {
    this.#deafMs += ms;
  }

  silentForMs(hostId: HostId): number {
    return this.#listenedMs() - (this.#heard.get(hostId)?.listenedMs ?? this.#listenedAtLoadMs);
  }

  /** Returns why nothing new is placed on the host; undefined when its heartbeats arrive in time. */
  readonly whySuspected: WhySuspected = (hostId) => {
    const { intervalMs, missedUntilSuspected } = this.beat;
    if (this.silentForMs(hostId) <= intervalMs * missedUntilSuspected) return undefined;
    return `host ${hostId} is suspected: it missed ${missedUntilSuspected} heartbeats in a row`;
  };

  /**
   * Returns whether the host may still be heard: its heartbeat timeout has not passed since the load of the tablet, and
   * no heartbeat or registration has arrived since then.
   */
  readonly mayYetBeHeard = (hostId: HostId): boolean =>
    !this.#heard.has(hostId) && this.silentForMs(hostId) <= this.beat.timeoutMs;

  /** Returns the time of the host's last heartbeat or registration; undefined when there was none since the load. */
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
