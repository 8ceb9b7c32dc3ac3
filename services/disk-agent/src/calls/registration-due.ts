import type { RegistryContact } from "./registry-contact.js";

/** Signals that the agent must register again, because its devices or exports changed. */
export class RegistrationDue {
  #due = new AbortController();

  constructor(readonly contact: RegistryContact) {}

  /** Aborts when a registration is due. */
  get signal(): AbortSignal {
    return this.#due.signal;
  }

  declare(): void {
    this.#due.abort();
  }

  /** Clears the signal when a registration begins; later changes set it again. */
  reset(): void {
    if (this.#due.signal.aborted) this.#due = new AbortController();
  }
}
