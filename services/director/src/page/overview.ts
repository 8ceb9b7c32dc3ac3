import type { Clock } from "@diskmesh/service";
import type { RowCache } from "./row-cache.js";

/** Minimum interval between two reads of a source, however many browsers ask. */
const READ_INTERVAL_MS = 1_000;
/** Time for which an answer waits for the reads under way: a source that is slow or hangs does not hide the others. */
const PATIENCE_MS = 500;
/** The same for all rows: the deadlines of a source, and less than that of the command that asks. */
const FULL_PATIENCE_MS = 6_000;

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

/** The rows of the page and of ListTroubles. They are read when somebody asks, and only then. */
export class Overview {
  readonly #closed = new AbortController();
  readonly #readings: readonly Reading[];

  constructor(
    sources: readonly Source[],
    private readonly rowCache: RowCache,
    private readonly clock: Clock,
  ) {
    this.#readings = sources.map((source) => ({
      ...{ source, promise: Promise.resolve(), isUnderWay: false },
      endedAtMs: Number.NEGATIVE_INFINITY,
    }));
  }

  /** Returns the JSON of an OverviewAnswer: what has changed since a former answer. */
  async changedSince(since: string): Promise<string> {
    await this.#within(PATIENCE_MS, this.#read(READ_INTERVAL_MS));
    return this.rowCache.changedSince(since);
  }

  /** Returns all rows, read after this call. */
  async rows(): Promise<ReturnType<RowCache["rows"]>> {
    const underWay = Promise.all(this.#readings.map(({ promise }) => promise));
    const reads = underWay.then(() => this.#read(0));
    await this.#within(FULL_PATIENCE_MS, reads);
    return this.rowCache.rows();
  }

  /** Ends the reads under way. */
  close(): void {
    this.#closed.abort();
  }

  async #within(patienceMs: number, reads: Promise<void>): Promise<void> {
    const waited = new AbortController();
    await Promise.race([reads, this.clock.sleep(patienceMs, waited.signal).catch(() => {})]);
    waited.abort();
  }

  /** Reads the sources whose last read is older. */
  async #read(maxAgeMs: number): Promise<void> {
    await Promise.all(this.#readings.map((each) => this.#readOne(each, maxAgeMs)));
  }

  #readOne(reading: Reading, maxAgeMs: number): Promise<void> {
    const { signal } = this.#closed;
    const isFresh = this.clock.monotonicMs() - reading.endedAtMs < maxAgeMs;
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
