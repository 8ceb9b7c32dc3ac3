import type { DeviceId } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { Ledger } from "../cache/ledger.js";
import { ageOf, hardwareErrors, withHardwareError, withoutHardwareErrors } from "../model/hardware-errors.js";
import type { AgentMemory } from "../model/memory.js";

/**
 * Monotonic time of an error in this run of the agent. Each error is a new object, so that it can be compared by
 * identity.
 */
interface Met {
  readonly atMs: number;
}

/** An error to report to the registry. */
export interface UntoldError {
  readonly message: string;
  /** Minimum age of the last occurrence. */
  readonly ageMs: number;
  readonly lastMet: Met | undefined;
}

/** Hardware errors that the registry has not received yet. The agent's cache contains them, too. */
export class HardwareErrors {
  readonly #ledger: Ledger;
  readonly #clock: Clock;
  readonly #lastMet = new Map<DeviceId, Met>();

  constructor(ledger: Ledger, clock: Clock) {
    this.#ledger = ledger;
    this.#clock = clock;
  }

  /** Records an error. */
  note(deviceId: DeviceId, message: string): void {
    this.#lastMet.set(deviceId, { atMs: this.#clock.monotonicMs() });
    const before = this.#ledger.memory;
    const memory = withHardwareError(before, deviceId, message, this.#clock.nowMs());
    if (memory === before) return;
    this.#ledger.remember(memory);
    // A failed write is repeated with the next one; the registry receives the error all the same.
    void this.#ledger.durable().catch(() => undefined);
  }

  /** Returns the unreported errors in that memory, by device. */
  untold(memory: AgentMemory): ReadonlyMap<DeviceId, UntoldError> {
    const errors = new Map<DeviceId, UntoldError>();
    for (const [deviceId, kept] of hardwareErrors(memory)) {
      const lastMet = this.#lastMet.get(deviceId);
      // The clock may have been set since, which affects only errors from before this run.
      const ageMs = lastMet ? Math.floor(this.#clock.monotonicMs() - lastMet.atMs) : ageOf(kept, this.#clock.nowMs());
      errors.set(deviceId, { message: kept.message, ageMs, lastMet });
    }
    return errors;
  }

  /**
   * Drops errors that the registry has received and stored. An error that occurred again meanwhile is reported again,
   * because the registry may have dated the reported one before an operator's override.
   */
  told(errors: ReadonlyMap<DeviceId, UntoldError>): void {
    const over = [...errors].filter(([deviceId, { lastMet }]) => this.#lastMet.get(deviceId) === lastMet);
    for (const [deviceId] of over) this.#lastMet.delete(deviceId);
    this.#ledger.remember(withoutHardwareErrors(this.#ledger.memory, new Map(over)));
  }
}
