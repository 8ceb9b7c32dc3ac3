import type { DeviceId } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { Ledger } from "../cache/ledger.js";
import { ageOf, hardwareErrors, withHardwareError, withoutHardwareErrors } from "../model/hardware-errors.js";
import type { AgentMemory } from "../model/memory.js";

/** When an error was met in this life of the agent, by the monotonic clock; each is another object. */
interface Met {
  readonly atMs: number;
}

/** An error that the registry is to be told of. */
export interface UntoldError {
  readonly message: string;
  /** How long ago, at least, the last one was met. */
  readonly ageMs: number;
  readonly lastMet: Met | undefined;
}

/** Errors of the hardware that the registry was not told yet. The agent's cache has them, too. */
export class HardwareErrors {
  readonly #ledger: Ledger;
  readonly #clock: Clock;
  readonly #lastMet = new Map<DeviceId, Met>();

  constructor(ledger: Ledger, clock: Clock) {
    this.#ledger = ledger;
    this.#clock = clock;
  }

  /** An error was met. */
  note(deviceId: DeviceId, message: string): void {
    this.#lastMet.set(deviceId, { atMs: this.#clock.monotonicMs() });
    const before = this.#ledger.memory;
    const memory = withHardwareError(before, deviceId, message, this.#clock.nowMs());
    if (memory === before) return;
    this.#ledger.remember(memory);
    // What cannot be written now is with the next write; the registry is told all the same.
    void this.#ledger.durable().catch(() => undefined);
  }

  /** By device, those in that memory. */
  untold(memory: AgentMemory): ReadonlyMap<DeviceId, UntoldError> {
    const errors = new Map<DeviceId, UntoldError>();
    for (const [deviceId, kept] of hardwareErrors(memory)) {
      const lastMet = this.#lastMet.get(deviceId);
      // The clock may have been set since, which matters only for what was met before this life.
      const ageMs = lastMet ? Math.floor(this.#clock.monotonicMs() - lastMet.atMs) : ageOf(kept, this.#clock.nowMs());
      errors.set(deviceId, { message: kept.message, ageMs, lastMet });
    }
    return errors;
  }

  /**
   * The registry was told of these, and remembers them from now on. One that was met again meanwhile is told again: the
   * registry may have taken what it was told for an error from before an operator's word.
   */
  told(errors: ReadonlyMap<DeviceId, UntoldError>): void {
    const over = [...errors].filter(([deviceId, { lastMet }]) => this.#lastMet.get(deviceId) === lastMet);
    for (const [deviceId] of over) this.#lastMet.delete(deviceId);
    this.#ledger.remember(withoutHardwareErrors(this.#ledger.memory, new Map(over)));
  }
}
