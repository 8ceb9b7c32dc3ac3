/**
 * A signal that aborts with the first of its sources, until it is disposed of. Sources that outlive it keep no
 * reference. AbortSignal.any does: while a source lives, Node keeps everything that a listener of the combined signal
 * reaches.
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
