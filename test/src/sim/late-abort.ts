import type { DomainError } from "@diskmesh/domain";

/** A signal that is made when somebody asks for it: most handlers never do. */
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
