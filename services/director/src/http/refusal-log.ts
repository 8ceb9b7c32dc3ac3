import type { Logger } from "@diskmesh/domain";

/** Refusals told one by one in a second; whoever is refused can come again as often as it likes, and must not fill the disk. */
const REFUSALS_PER_SECOND = 20;

/** Tells the log of requests that were refused; beyond some in a second it tells how many there were. */
export class RefusalLog {
  #secondBeganMs = Number.NEGATIVE_INFINITY;
  #inSecond = 0;
  #notTold = 0;

  constructor(
    private readonly log: Logger,
    private readonly message: string,
  ) {}

  /** No secret may be in `said`. */
  refused(said: object): void {
    const nowMs = performance.now();
    if (nowMs - this.#secondBeganMs >= 1_000) {
      this.#secondBeganMs = nowMs;
      this.#inSecond = 0;
    }
    this.#inSecond += 1;
    if (this.#inSecond > REFUSALS_PER_SECOND) {
      this.#notTold += 1;
      return;
    }
    this.log.warn({ ...said, audit: "refused", ...(this.#notTold > 0 && { notTold: this.#notTold }) }, this.message);
    this.#notTold = 0;
  }
}
