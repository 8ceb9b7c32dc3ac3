import type { DiskId } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { RegistryTablet } from "./context.js";

/** Wakes those who wait for a disk, after each durable change of it. */
export class DiskChanges {
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly #unwatch: () => void;

  constructor(
    tablet: RegistryTablet,
    private readonly clock: Clock,
  ) {
    this.#unwatch = tablet.watch((changes) => {
      for (const { table, key } of changes) {
        if (table === "disks") for (const wake of this.#waiting.get(key) ?? []) wake();
      }
    });
  }

  /** Calls `check` now and after each change until it returns something. Undefined when `untilMs` came first. */
  async until<T>(
    diskId: DiskId,
    untilMs: number,
    signal: AbortSignal,
    check: () => Promise<T | undefined>,
  ): Promise<T | undefined> {
    for (;;) {
      // Listening before looking: a change in between would be missed the other way round.
      const change = new AbortController();
      const stopListening = this.#listen(diskId, () => change.abort());
      try {
        const found = await check();
        if (found !== undefined) return found;
        const leftMs = untilMs - this.clock.nowMs();
        if (leftMs <= 0) return undefined;
        await this.#sleep(leftMs, AbortSignal.any([change.signal, signal]), signal);
      } finally {
        stopListening();
      }
    }
  }

  async #sleep(ms: number, wake: AbortSignal, cancelled: AbortSignal): Promise<void> {
    try {
      await this.clock.sleep(ms, wake);
    } catch (error) {
      if (!wake.aborted) throw error;
      cancelled.throwIfAborted();
    }
  }

  #listen(diskId: DiskId, wake: () => void): () => void {
    const waiting = this.#waiting.get(diskId) ?? new Set();
    this.#waiting.set(diskId, waiting);
    waiting.add(wake);
    return () => {
      waiting.delete(wake);
      if (waiting.size === 0 && this.#waiting.get(diskId) === waiting) this.#waiting.delete(diskId);
    };
  }

  close(): void {
    this.#unwatch();
  }
}
