import { MIB_BYTES, ResourceExhaustedError } from "@diskmesh/domain";
import { Watch } from "@diskmesh/service";

export interface CpiLogLimits {
  /** Maximum concurrent WatchCpiLog streams. */
  readonly maxLogWatchers: number;
  /**
   * Maximum lines of one log id that are buffered for a watcher that is slow or has not connected yet. Further lines
   * are dropped, and their number is reported.
   */
  readonly maxLogLinesPerReader: number;
  /** Maximum bytes of these lines. */
  readonly maxLogBytesPerReader: number;
  /** Maximum bytes buffered for all watchers. */
  readonly maxLogBytes: number;
}

/** A director watches with a single stream. Lines for slow watchers are buffered in memory. */
const LIMITS: CpiLogLimits = {
  maxLogWatchers: 1_000,
  maxLogLinesPerReader: 10_000,
  maxLogBytesPerReader: 4 * MIB_BYTES,
  maxLogBytes: 64 * MIB_BYTES,
};

/** The buffered lines of a log id for a reader. */
class Lines implements Disposable {
  readonly #lines: string[] = [];
  #sizeBytes = 0;
  #dropped = 0;

  constructor(
    private readonly limits: CpiLogLimits,
    /** Bytes buffered for all readers. */
    private readonly all: { sizeBytes: number },
  ) {}

  push(line: string): void {
    const { maxLogLinesPerReader, maxLogBytesPerReader, maxLogBytes } = this.limits;
    const sizeBytes = Buffer.byteLength(line);
    const fits = this.#sizeBytes + sizeBytes <= maxLogBytesPerReader && this.all.sizeBytes + sizeBytes <= maxLogBytes;
    if (!fits || this.#lines.length >= maxLogLinesPerReader) this.#dropped++;
    else {
      this.#lines.push(line);
      this.#sizeBytes += sizeBytes;
      this.all.sizeBytes += sizeBytes;
    }
  }

  take(): string[] {
    const taken = this.#lines.splice(0);
    this.all.sizeBytes -= this.#sizeBytes;
    this.#sizeBytes = 0;
    if (this.#dropped > 0) taken.push(`[${this.#dropped} lines were dropped: nobody read them in time]`);
    this.#dropped = 0;
    return taken;
  }

  /** Discards the lines that were not taken. */
  [Symbol.dispose](): void {
    this.take();
  }
}

export interface LogLine {
  readonly logId: string;
  readonly line: string;
}

/** Selects the watched lines: a log id, or all calls of a director. */
export type WatchedLog = { readonly logId: string } | { readonly directorId: string };

const keyOf = (watched: WatchedLog): string =>
  "logId" in watched ? `log ${watched.logId}` : `director ${watched.directorId}`;

/** A log watcher. Each log id has limits of its own, so that a verbose call does not affect the lines of others. */
class Watcher implements Disposable {
  readonly #byLogId = new Map<string, Lines>();
  readonly #pushed = new Watch();

  constructor(private readonly newLines: () => Lines) {}

  push({ logId, line }: LogLine): void {
    let lines = this.#byLogId.get(logId);
    if (lines === undefined) {
      lines = this.newLines();
      this.#byLogId.set(logId, lines);
    }
    lines.push(line);
    this.#pushed.touch();
  }

  *take(): Generator<LogLine> {
    for (const [logId, lines] of this.#byLogId) {
      this.#byLogId.delete(logId);
      for (const line of lines.take()) yield { logId, line };
    }
  }

  /** Resolves when lines may be available or the signal aborts. */
  async something(signal: AbortSignal): Promise<void> {
    await this.#pushed.changed(signal).catch(() => {});
  }

  [Symbol.dispose](): void {
    for (const lines of this.#byLogId.values()) lines[Symbol.dispose]();
  }
}

interface Early {
  readonly directorId: string;
  readonly lines: Lines;
  calls: number;
}

/** Forwards the log lines of CPIs to watchers. */
export class CpiLog {
  readonly #watchers = new Map<string, Set<Watcher>>();
  /** Buffered lines by log id of calls without a watcher yet, because the watch may arrive after the call. */
  readonly #early = new Map<string, Early>();
  readonly #waiting = { sizeBytes: 0 };
  #watcherCount = 0;

  constructor(private readonly limits: CpiLogLimits = LIMITS) {}

  /** Runs a call whose log lines go to the watchers of its log id or director. */
  async during<Result>(
    { logId, directorId }: { readonly logId: string; readonly directorId: string },
    work: (onLine: (line: string) => void) => Promise<Result>,
  ): Promise<Result> {
    if (logId === "") return work(() => {});
    const early = this.#early.get(logId) ?? { directorId, lines: this.#newLines(), calls: 0 };
    early.calls++;
    this.#early.set(logId, early);
    try {
      return await work((line) => this.#push(directorId, { logId, line }));
    } finally {
      early.calls--;
      if (early.calls === 0) {
        this.#early.delete(logId);
        early.lines[Symbol.dispose]();
      }
    }
  }

  async *watch(watched: WatchedLog, signal: AbortSignal): AsyncGenerator<LogLine> {
    if (this.#watcherCount >= this.limits.maxLogWatchers)
      throw new ResourceExhaustedError(`${this.#watcherCount} streams already watch CPI logs, the limit: end some`, {
        reason: "QUEUE_FULL",
        retryAfterMs: 1_000,
      });
    using watcher = new Watcher(() => this.#newLines());
    const key = keyOf(watched);
    const watchers = this.#watchers.get(key) ?? new Set();
    watchers.add(watcher);
    this.#watchers.set(key, watchers);
    this.#watcherCount++;
    try {
      yield* this.#takeEarly(watched);
      while (!signal.aborted) {
        await watcher.something(signal);
        yield* watcher.take();
      }
    } finally {
      this.#watcherCount--;
      watchers.delete(watcher);
      if (watchers.size === 0) this.#watchers.delete(key);
    }
  }

  #newLines(): Lines {
    return new Lines(this.limits, this.#waiting);
  }

  #takeEarly(watched: WatchedLog): LogLine[] {
    const isWatched = (logId: string, { directorId }: Early) =>
      "logId" in watched ? watched.logId === logId : watched.directorId === directorId;
    return [...this.#early].flatMap(([logId, early]) =>
      isWatched(logId, early) ? early.lines.take().map((line) => ({ logId, line })) : [],
    );
  }

  #push(directorId: string, said: LogLine): void {
    const { logId } = said;
    const watchers = [{ logId }, { directorId }].flatMap((watched) => [...(this.#watchers.get(keyOf(watched)) ?? [])]);
    if (watchers.length === 0) this.#early.get(logId)?.lines.push(said.line);
    else for (const watcher of watchers) watcher.push(said);
  }
}
