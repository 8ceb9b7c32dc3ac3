/** Says that the registry is to be told anew of what the agent has. */
export class RegistrationDue {
  #due = new AbortController();

  /** Aborts when it is due. */
  get signal(): AbortSignal {
    return this.#due.signal;
  }

  declare(): void {
    this.#due.abort();
  }

  /** A registration begins: what becomes due from now on needs another one. */
  reset(): void {
    if (this.#due.signal.aborted) this.#due = new AbortController();
  }
}
