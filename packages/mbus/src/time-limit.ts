/** Explicit abort reasons, because abort() without one creates an error with its stack each time. */
const [TIME_IS_UP, PARENT_ENDED, RELEASED] = ["the time is up", "the parent ended", "all is done"];

/**
 * A time limit that ends after its time, with its parent, or when released. The AbortSignal is created on demand,
 * because most requests are answered without it.
 */
export class TimeLimit {
  readonly #timer: NodeJS.Timeout;
  readonly #forgetParent: () => void;
  readonly #listeners = new Set<(reason: string) => void>();
  #signal: AbortSignal | undefined;
  #reason: string | undefined;

  constructor(timeoutMs: number, parent?: AbortSignal | TimeLimit) {
    this.#timer = setTimeout(() => this.#end(TIME_IS_UP), timeoutMs);
    const onParentEnd = (): void => this.#end(PARENT_ENDED);
    if (parent instanceof TimeLimit) this.#forgetParent = parent.onEnd(onParentEnd);
    else {
      if (parent?.aborted) onParentEnd();
      parent?.addEventListener("abort", onParentEnd);
      this.#forgetParent = () => parent?.removeEventListener("abort", onParentEnd);
    }
  }

  get signal(): AbortSignal {
    if (this.#signal === undefined) {
      const controller = new AbortController();
      this.#signal = controller.signal;
      this.onEnd((reason) => controller.abort(reason));
    }
    return this.#signal;
  }

  get hasEnded(): boolean {
    return this.#reason !== undefined;
  }

  /** True when the time has passed; false while the limit has not ended, and when its parent or a release ended it. */
  get isTimeUp(): boolean {
    return this.#reason === TIME_IS_UP;
  }

  /** Calls back when the limit ends, at once if it has. Returns a function that removes the listener. */
  onEnd(listener: (reason: string) => void): () => void {
    if (this.#reason !== undefined) listener(this.#reason);
    else this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  release(): void {
    clearTimeout(this.#timer);
    this.#forgetParent();
    this.#end(RELEASED);
  }

  #end(reason: string): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    for (const listener of this.#listeners) listener(reason);
    this.#listeners.clear();
  }
}
