import type { DeviceOperation } from "../base/metrics.js";

export interface Sums {
  operations: number;
  errors: number;
  timeMs: number;
}

const noSums = (): Sums => ({ operations: 0, errors: 0, timeMs: 0 });

/** Counts the completed operations of a device since the agent's start. */
export class OperationSums {
  readonly #sums: Readonly<Record<DeviceOperation, Sums>> = {
    read: noSums(),
    write: noSums(),
    clear: noSums(),
    flush: noSums(),
  };

  /** Counts an operation that the operating system has completed, failed ones included. */
  count(operation: DeviceOperation, durationMs: number): void {
    this.#sums[operation].operations += 1;
    this.#sums[operation].timeMs += durationMs;
  }

  countError(operation: DeviceOperation): void {
    this.#sums[operation].errors += 1;
  }

  of(operation: DeviceOperation): Readonly<Sums> {
    return this.#sums[operation];
  }
}
