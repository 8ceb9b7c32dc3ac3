/** Signals that the registry must be told again what the agent has. */
export class RegistrationDue {
  #due = new AbortController();

  /** Aborts when a registration is due. */
  get signal(): AbortSignal {
    return this.#due.signal;
  }

  declare(): void {
    this.#due.abort();
  }

  /** Marks the start of a registration; later changes need another one. */
  reset(): void {
    if (this.#due.signal.aborted) this.#due = new AbortController();
  }
}
