import type { DeviceId } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { Ledger } from "../cache/ledger.js";
import { ageOf, hardwareErrors, withHardwareError, withoutHardwareErrors } from "../model/hardware-errors.js";
import type { AgentMemory } from "../model/memory.js";

/**
 * Time of an error in this run of the agent (monotonic clock). Each error is a new object, so that errors are compared
 * by identity.
 */
interface Met {
  readonly atMs: number;
}

/** A hardware error to report to the registry. */
export interface UnreportedError {
  readonly message: string;
  /** Minimum time in ms since the last occurrence. */
  readonly ageMs: number;
  readonly lastMet: Met | undefined;
}

/** Hardware errors that the registry has not acknowledged yet. The agent's cache contains them as well. */
export class HardwareErrors {
  readonly #ledger: Ledger;
  readonly #clock: Clock;
  readonly #lastMet = new Map<DeviceId, Met>();

  constructor(ledger: Ledger, clock: Clock) {
    this.#ledger = ledger;
    this.#clock = clock;
  }

  note(deviceId: DeviceId, message: string): void {
    this.#lastMet.set(deviceId, { atMs: this.#clock.monotonicMs() });
    const before = this.#ledger.memory;
    const memory = withHardwareError(before, deviceId, message, this.#clock.nowMs());
    if (memory === before) return;
    this.#ledger.remember(memory);
    // A failed cache write needs no handling: the next write includes the error, and the registry gets it from memory.
    void this.#ledger.durable().catch(() => undefined);
  }

  /** Returns, by device, the errors in `memory` that the registry has not acknowledged. */
  unreported(memory: AgentMemory): ReadonlyMap<DeviceId, UnreportedError> {
    const errors = new Map<DeviceId, UnreportedError>();
    for (const [deviceId, kept] of hardwareErrors(memory)) {
      const lastMet = this.#lastMet.get(deviceId);
      // The age of an error from an earlier run comes from the wall clock alone, and is wrong if that clock was set
      // since.
      const ageMs = lastMet ? Math.floor(this.#clock.monotonicMs() - lastMet.atMs) : ageOf(kept, this.#clock.nowMs());
      errors.set(deviceId, { message: kept.message, ageMs, lastMet });
    }
    return errors;
  }

  /**
   * Drops errors that the registry has acknowledged. An error that occurred again meanwhile is reported again, because
   * the registry may have dated the reported occurrence before an operator's override.
   */
  markReported(errors: ReadonlyMap<DeviceId, UnreportedError>): void {
    const over = [...errors].filter(([deviceId, { lastMet }]) => this.#lastMet.get(deviceId) === lastMet);
    for (const [deviceId] of over) this.#lastMet.delete(deviceId);
    this.#ledger.remember(withoutHardwareErrors(this.#ledger.memory, new Map(over)));
  }
}
