import type { ActivitySample } from "@diskmesh/page/rows";
import type { Clock } from "@diskmesh/service";
import type { RegistryClients } from "../explain/registries.js";
import type { DirectorTablet } from "../store/stored-schema.js";

const INTERVAL_MS = 10_000;
/** Samples of the last hour. */
const MAX_SAMPLES = 360;
/** Earlier samples are merged into samples of five minutes, up to a day. */
const MERGED = 30;
const MAX_EARLIER = 276;
const READ_DEADLINE_MS = 5_000;

type Io = NonNullable<ActivitySample["io"]>;

interface IoReading extends Io {
  /** Start of the registries' counters: rates are known only between readings with the same start. */
  readonly since: string;
}

export interface ActivityOptions {
  readonly tablet: Pick<DirectorTablet, "read" | "watch">;
  readonly registries: readonly Pick<RegistryClients, "registry">[];
  readonly clock: Clock;
}

/** Samples of the last day for the page's charts. Kept in memory of the leading director only. */
export class Activity {
  readonly #options: ActivityOptions;
  readonly #samples: ActivitySample[] = [];
  readonly #earlier: ActivitySample[] = [];
  readonly #stop = new AbortController();
  readonly #unwatch: () => void;
  /** Tasks that ended in the present interval, and whether each failed. */
  #ended = new Map<string, boolean>();
  /** Tasks that ended in the interval before, because a task changes again after its end. */
  #endedBefore = new Map<string, boolean>();
  #lastIo: IoReading | undefined;
  #lastMs: number;

  constructor(options: ActivityOptions) {
    this.#options = options;
    this.#lastMs = options.clock.monotonicMs();
    this.#unwatch = options.tablet.watch((changes) => {
      for (const { table, key, document } of changes) {
        if (table !== "tasks" || document === null || this.#endedBefore.has(key)) continue;
        const { endedAtMs, state } = document as { readonly endedAtMs: number | null; readonly state: string };
        if (endedAtMs !== null) this.#ended.set(key, state === "error" || state === "timeout");
      }
    });
    void this.#run();
  }

  /** Returns the samples after a time, oldest first. */
  after(timeMs: number): ActivitySample[] {
    return [...this.#earlier, ...this.#samples].filter(({ atMs }) => atMs > timeMs);
  }

  close(): void {
    this.#unwatch();
    this.#stop.abort();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const { clock } = this.#options;
    while (!signal.aborted) {
      try {
        await this.#sample(signal);
      } catch {
        // The tablet cannot be read: the chart has a gap.
      }
      await clock.sleep(INTERVAL_MS, signal).catch(() => {});
    }
  }

  async #sample(signal: AbortSignal): Promise<void> {
    const { tablet, clock } = this.#options;
    const io = await this.#readIo(signal).catch(() => undefined);
    const { running, queued } = await tablet.read(({ tasks }) => {
      const live = [...tasks.by("byEnd", "live")];
      const waiting = live.filter(({ state }) => state === "queued").length;
      return { running: live.length - waiting, queued: waiting };
    });
    const nowMs = clock.monotonicMs();
    const ended = this.#ended;
    [this.#endedBefore, this.#ended] = [ended, new Map()];
    const failed = [...ended.values()].filter((isFailed) => isFailed).length;
    this.#samples.push({
      atMs: clock.nowMs(),
      io: ratesOf(this.#lastIo, io, (nowMs - this.#lastMs) / 1_000),
      tasks: { running, queued, ended: ended.size, failed },
    });
    this.#lastIo = io;
    this.#lastMs = nowMs;
    if (this.#samples.length < MAX_SAMPLES + MERGED) return;
    this.#earlier.push(mergedSample(this.#samples.splice(0, MERGED)));
    if (this.#earlier.length > MAX_EARLIER) this.#earlier.shift();
  }

  /** Returns the sums of all registries. Throws when one does not answer. */
  async #readIo(signal: AbortSignal): Promise<IoReading> {
    const answers = await Promise.all(
      this.#options.registries.map(({ registry }) =>
        registry.getIoTotals({}, { signal, deadlineMs: READ_DEADLINE_MS }),
      ),
    );
    const sum = (field: keyof Io): number => answers.reduce((all, { totals }) => all + (totals?.[field] ?? 0), 0);
    return {
      reads: sum("reads"),
      readBytes: sum("readBytes"),
      writes: sum("writes"),
      writtenBytes: sum("writtenBytes"),
      since: answers.map(({ startTime }) => startTime?.getTime()).join(" "),
    };
  }
}

/** Returns the means of the rates and of the running and queued tasks, and the sums of the ended tasks. */
export function mergedSample(samples: readonly ActivitySample[]): ActivitySample {
  const mean = (values: readonly number[]): number => values.reduce((sum, each) => sum + each, 0) / values.length;
  const ios = samples.flatMap(({ io }) => io ?? []);
  const rate = (field: keyof Io): number => mean(ios.map((io) => io[field]));
  const count = (field: keyof ActivitySample["tasks"]): number => mean(samples.map(({ tasks }) => tasks[field]));
  return {
    atMs: samples.at(-1)?.atMs ?? 0,
    io:
      ios.length === 0
        ? null
        : {
            ...{ reads: rate("reads"), readBytes: rate("readBytes") },
            ...{ writes: rate("writes"), writtenBytes: rate("writtenBytes") },
          },
    tasks: {
      ...{ running: count("running"), queued: count("queued") },
      ended: Math.round(count("ended") * samples.length),
      failed: Math.round(count("failed") * samples.length),
    },
  };
}

function ratesOf(before: IoReading | undefined, now: IoReading | undefined, seconds: number): Io | null {
  if (before === undefined || now === undefined || before.since !== now.since || seconds <= 0) return null;
  const rate = (field: keyof Io): number => (now[field] - before[field]) / seconds;
  return {
    reads: rate("reads"),
    readBytes: rate("readBytes"),
    writes: rate("writes"),
    writtenBytes: rate("writtenBytes"),
  };
}
