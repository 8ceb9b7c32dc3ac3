import type { Clock } from "@diskmesh/service";
import type { RowCache } from "./row-cache.js";
import type { Troubles } from "./troubles.js";

/** Minimum interval between two reads of a source, however many browsers ask. */
const READ_INTERVAL_MS = 1_000;
/** Time for which an answer waits for the reads under way: a source that is slow or hangs does not hide the others. */
const PATIENCE_MS = 500;

/** Something that rows are read from. */
interface Source {
  /** Brings the source's rows up to date. */
  readonly read: (signal: AbortSignal) => Promise<void>;
}

interface Reading {
  readonly source: Source;
  /** The read under way, or the last one. */
  promise: Promise<void>;
  isUnderWay: boolean;
  endedAtMs: number;
}

/** The page's rows. They are read when a browser asks, and only then. */
export class Overview {
  readonly #closed = new AbortController();
  readonly #readings: readonly Reading[];

  constructor(
    sources: readonly Source[],
    private readonly rowCache: RowCache,
    private readonly clock: Clock,
    /** Returns the objects with trouble, read once. */
    readonly troubles: (signal: AbortSignal) => Promise<Troubles>,
  ) {
    this.#readings = sources.map((source) => ({
      ...{ source, promise: Promise.resolve(), isUnderWay: false },
      endedAtMs: Number.NEGATIVE_INFINITY,
    }));
  }

  /** Returns the JSON of an OverviewAnswer: what has changed since a former answer. */
  async changedSince(since: string): Promise<string> {
    const waited = new AbortController();
    const reads = Promise.all(this.#readings.map((each) => this.#refreshed(each)));
    await Promise.race([reads, this.clock.sleep(PATIENCE_MS, waited.signal).catch(() => {})]);
    waited.abort();
    return this.rowCache.changedSince(since);
  }

  /** Ends the reads under way. */
  close(): void {
    this.#closed.abort();
  }

  #refreshed(reading: Reading): Promise<void> {
    const { signal } = this.#closed;
    const isFresh = this.clock.monotonicMs() - reading.endedAtMs < READ_INTERVAL_MS;
    if (reading.isUnderWay || isFresh || signal.aborted) return reading.promise;
    reading.isUnderWay = true;
    // A read ends with an error only when this is closed.
    reading.promise = reading.source
      .read(signal)
      .catch(() => {})
      .finally(() => {
        reading.isUnderWay = false;
        reading.endedAtMs = this.clock.monotonicMs();
      });
    return reading.promise;
  }
}
