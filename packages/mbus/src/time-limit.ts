/** Why it aborts; without one, abort() makes an error with its stack each time. */
const [TIME_IS_UP, PARENT_ABORTED, RELEASED] = ["the time is up", "the parent aborted", "all is done"];

/** A signal that aborts when some time is over, together with its parent, or when it is released because all is done. */
export class TimeLimit {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #parent: AbortSignal | undefined;
  readonly #onParentAbort = () => this.#controller.abort(PARENT_ABORTED);
  #isTimeUp = false;

  constructor(timeoutMs: number, parent?: AbortSignal) {
    this.#timer = setTimeout(() => {
      this.#isTimeUp = true;
      this.#controller.abort(TIME_IS_UP);
    }, timeoutMs);
    this.#parent = parent;
    if (parent?.aborted) this.#controller.abort(PARENT_ABORTED);
    else parent?.addEventListener("abort", this.#onParentAbort);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** True when this limit's own time ended it; false when its parent did, or nothing yet. */
  get isTimeUp(): boolean {
    return this.#isTimeUp;
  }

  release(): void {
    clearTimeout(this.#timer);
    this.#parent?.removeEventListener("abort", this.#onParentAbort);
    this.#controller.abort(RELEASED);
  }
}
