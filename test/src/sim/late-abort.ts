import type { DomainError } from "@diskmesh/domain";

/** Creates a handler's abort signal at its first use, because most handlers never use it. */
export class LateAbort {
  #controller: AbortController | undefined;
  #reason: DomainError | undefined;

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  get aborted(): boolean {
    return this.#reason !== undefined;
  }

  abort(reason: DomainError): void {
    this.#reason ??= reason;
    this.#controller?.abort(reason);
  }
}
