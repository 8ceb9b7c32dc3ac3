import type { DeviceProblem } from "./device-problem.js";

/** What vendors' drivers say is wrong with a device. They warn; that it is not to be used they cannot say. */
export class DriverWords {
  readonly #messages = new Map<string, string>();

  /** What that driver says now; undefined takes its word back. */
  say(driver: string, message: string | undefined): void {
    if (message === undefined) this.#messages.delete(driver);
    else this.#messages.set(driver, message);
  }

  get problem(): DeviceProblem | undefined {
    return this.#messages.size === 0
      ? undefined
      : { level: "WARNING", message: [...this.#messages.values()].join("; ") };
  }
}
