import { ResourceExhaustedError } from "@diskmesh/domain";
import { Watch } from "@diskmesh/service";

export interface CpiLogLimits {
  /** Streams of WatchCpiLog at once. */
  readonly maxLogWatchers: number;
  /** Lines that wait for a slow watcher, or for one that is about to come; more are dropped, and that is said. */
  readonly maxLogLines: number;
  /** What those lines may take. */
  readonly maxLogBytesPerReader: number;
  /** The same, of all that wait. */
  readonly maxLogBytes: number;
}

/** Lines that wait for one reader. */
class Lines implements Disposable {
  readonly #lines: string[] = [];
  #sizeBytes = 0;
  #dropped = 0;
  readonly #pushed = new Watch();

  constructor(
    private readonly limits: CpiLogLimits,
    /** Of the lines that wait for all readers. */
    private readonly all: { sizeBytes: number },
  ) {}

  push(line: string): void {
    const { maxLogLines, maxLogBytesPerReader, maxLogBytes } = this.limits;
    const sizeBytes = Buffer.byteLength(line);
    const fits = this.#sizeBytes + sizeBytes <= maxLogBytesPerReader && this.all.sizeBytes + sizeBytes <= maxLogBytes;
    if (!fits || this.#lines.length >= maxLogLines) this.#dropped++;
    else {
      this.#lines.push(line);
      this.#sizeBytes += sizeBytes;
      this.all.sizeBytes += sizeBytes;
    }
    this.#pushed.touch();
  }

  take(): string[] {
    const taken = this.#lines.splice(0);
    this.all.sizeBytes -= this.#sizeBytes;
    this.#sizeBytes = 0;
    if (this.#dropped > 0) taken.push(`[${this.#dropped} lines were dropped: nobody read them in time]`);
    this.#dropped = 0;
    return taken;
  }

  /** Returns when there may be something to take, or the signal aborts. */
  async something(signal: AbortSignal): Promise<void> {
    await this.#pushed.changed(signal).catch(() => {});
  }

  /** What nobody took is forgotten. */
  [Symbol.dispose](): void {
    this.take();
  }
}

/** Passes what CPIs say on to those who watch, by log id. */
export class CpiLog {
  readonly #watchers = new Map<string, Set<Lines>>();
  /** Lines of calls under way that nobody watches yet: a watch and a call may overtake each other on their way. */
  readonly #early = new Map<string, { lines: Lines; calls: number }>();
  readonly #waiting = { sizeBytes: 0 };
  #watcherCount = 0;

  constructor(private readonly limits: CpiLogLimits) {}

  /** Runs a call whose lines go to the watchers of that id. */
  async during<Result>(logId: string, work: (onLine: (line: string) => void) => Promise<Result>): Promise<Result> {
    if (logId === "") return work(() => {});
    const early = this.#early.get(logId) ?? { lines: new Lines(this.limits, this.#waiting), calls: 0 };
    early.calls++;
    this.#early.set(logId, early);
    try {
      return await work((line) => this.#push(logId, line));
    } finally {
      early.calls--;
      if (early.calls === 0) {
        this.#early.delete(logId);
        early.lines[Symbol.dispose]();
      }
    }
  }

  async *watch(logId: string, signal: AbortSignal): AsyncGenerator<string> {
    if (this.#watcherCount >= this.limits.maxLogWatchers)
      throw new ResourceExhaustedError(`${this.#watcherCount} streams watch CPI logs already (maxLogWatchers)`);
    using lines = new Lines(this.limits, this.#waiting);
    const watchers = this.#watchers.get(logId) ?? new Set();
    watchers.add(lines);
    this.#watchers.set(logId, watchers);
    this.#watcherCount++;
    try {
      yield* this.#early.get(logId)?.lines.take() ?? [];
      while (!signal.aborted) {
        await lines.something(signal);
        yield* lines.take();
      }
    } finally {
      this.#watcherCount--;
      watchers.delete(lines);
      if (watchers.size === 0) this.#watchers.delete(logId);
    }
  }

  #push(logId: string, line: string): void {
    const watchers = this.#watchers.get(logId);
    if (watchers === undefined) this.#early.get(logId)?.lines.push(line);
    else for (const lines of watchers) lines.push(line);
  }
}
