import type { HostId } from "@diskmesh/domain";

/** A silence that the registry notices, whatever the moment at which it looks. */
const SILENCE_MS = 5_500;
/** Time for which a host must be heard before it gets a copy, after its first silence, its second and any later one. */
const PROVES_FOR_MS = [0, 4_000, 8_000, 15_000];
/** Time between two silences of the same row, whatever the moments at which the registry notices them. */
const SAME_ROW_MS = 14_000;

interface Hearing {
  sinceMs: number;
  lastMs: number;
  silences: number;
}

/** When one leader of the registry has heard the hosts. */
export class Flaps {
  readonly #hearings = new Map<HostId, Hearing>();

  /** Another leader, or another store: nothing is known of earlier silences. */
  forget(): void {
    this.#hearings.clear();
  }

  heard(hostId: HostId, nowMs: number): void {
    const hearing = this.#hearings.get(hostId) ?? { sinceMs: nowMs, lastMs: nowMs, silences: 0 };
    if (nowMs - hearing.lastMs >= SILENCE_MS) {
      const isSameRow = hearing.silences > 0 && hearing.lastMs - hearing.sinceMs < SAME_ROW_MS;
      hearing.silences = isSameRow ? hearing.silences + 1 : 1;
      hearing.sinceMs = nowMs;
    }
    hearing.lastMs = nowMs;
    this.#hearings.set(hostId, hearing);
  }

  /** Returns why the host must not get a copy yet. */
  whyUnsteady(hostId: HostId, nowMs: number): string | undefined {
    const { silences = 0, sinceMs = 0 } = this.#hearings.get(hostId) ?? {};
    const heardForMs = nowMs - sinceMs;
    if (heardForMs >= (PROVES_FOR_MS[Math.min(silences, 3)] as number)) return undefined;
    return `${hostId} was silent ${silences} times and is heard for ${(heardForMs / 1_000).toFixed(1)} s`;
  }
}
