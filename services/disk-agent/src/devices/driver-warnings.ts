import type { DeviceProblem } from "./device-problem.js";

/** Warnings of vendors' drivers about a device. A driver can warn, but cannot set a device to ERROR. */
export class DriverWarnings {
  readonly #messages = new Map<string, string>();

  /** Sets a driver's warning; undefined clears it. */
  set(driver: string, message: string | undefined): void {
    if (message === undefined) this.#messages.delete(driver);
    else this.#messages.set(driver, message);
  }

  get problem(): DeviceProblem | undefined {
    return this.#messages.size === 0
      ? undefined
      : { level: "WARNING", message: [...this.#messages.values()].join("; ") };
  }
}
