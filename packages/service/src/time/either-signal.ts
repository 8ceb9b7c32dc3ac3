/**
 * Aborted as soon as one of its sources is, while it is held. Sources that outlive it keep nothing of it: of a signal of
 * AbortSignal.any that has a listener, Node keeps all that the listener reaches for as long as a source lives.
 */
export class EitherSignal implements Disposable {
  readonly #controller = new AbortController();
  readonly #sources: readonly AbortSignal[];
  readonly #abort = (): void => this.#controller.abort(this.#sources.find(({ aborted }) => aborted)?.reason);

  constructor(...sources: readonly (AbortSignal | undefined)[]) {
    this.#sources = sources.filter((source) => source !== undefined);
    for (const source of this.#sources) source.addEventListener("abort", this.#abort);
    if (this.#sources.some(({ aborted }) => aborted)) this.#abort();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  [Symbol.dispose](): void {
    for (const source of this.#sources) source.removeEventListener("abort", this.#abort);
  }
}
