import type { Logger } from "@diskmesh/domain";

const WINDOW_MS = 60_000;
/** Maximum number of lines about one caller in a window. They take at most about 100 MB a day. */
const LINES_PER_CALLER = 120;
/** Maximum number of lines about all callers in a window. Also bounds the number of remembered callers. */
const LINES = 1_200;

/** Limits the log lines that refused and failed calls cause per caller, so that no caller can fill a disk. */
export class LineLimit {
  readonly #callers = new Map<string, { lines: number; leftOut: number }>();
  #lines = 0;
  #leftOutOfOthers = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly log: Logger,
    private readonly windowMs = WINDOW_MS,
  ) {}

  /**
   * Returns whether a line about this caller may be written now. Suppressed lines are counted; the log gets the counts
   * each minute.
   */
  admits(caller: string): boolean {
    this.#timer ??= setTimeout(() => this.#end(), this.windowMs).unref();
    let counts = this.#callers.get(caller);
    if (counts === undefined && this.#lines < LINES) {
      counts = { lines: 0, leftOut: 0 };
      this.#callers.set(caller, counts);
    }
    if (counts === undefined) this.#leftOutOfOthers += 1;
    else if (counts.lines >= LINES_PER_CALLER || this.#lines >= LINES) counts.leftOut += 1;
    else {
      counts.lines += 1;
      this.#lines += 1;
      return true;
    }
    return false;
  }

  #end(): void {
    for (const [caller, { leftOut }] of this.#callers) this.#tell(caller, leftOut);
    this.#tell("others", this.#leftOutOfOthers);
    this.#callers.clear();
    this.#lines = 0;
    this.#leftOutOfOthers = 0;
    this.#timer = undefined;
  }

  #tell(caller: string, leftOut: number): void {
    if (leftOut > 0)
      this.log.warn({ caller, suppressedLines: leftOut }, "log lines of refused and failed calls suppressed");
  }
}
