/**
 * Aborts with the first of its source signals until it is disposed of; then the sources hold no reference to it.
 * AbortSignal.any would leak: while a source lives, Node keeps everything that listeners of the combined signal
 * reference.
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
