import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { messageOf } from "@diskmesh/domain";
import { temporaryFolder } from "@diskmesh/testkit";
import { inputAt } from "./input-at.js";
import type { InputRange, Lane, SurfaceFind } from "./lane.js";
import { parserOf } from "./parsers.js";
import { Standstill } from "./standstill.js";
import { Counts, type Surface } from "./surface.js";
import { ranForMs, threadId, waitedForTurnsMs } from "./watched-processes.js";

/** Indexes into the memory that both threads share. */
const INDEX = 0;
const SENT = 1;
const PAUSED = 2;
const STOPPED = 3;
const THREAD = 4;
const PLACES = 5;

const LOOK_MS = 250;
/** Minimum duration in ms of a parser's run that is a fault, because the parser's whole process waits meanwhile. */
const SLOW_MS = 1_000;
/** Time in ms after which the thread counts as stuck. Time in which other threads ran does not count. */
const STUCK_MS = 60_000;
/**
 * Number of inputs between two pauses. Without pauses, parsers would use all CPU time, because they are much faster
 * than servers.
 */
const INPUTS_BEFORE_A_REST = 20;
const REST_MS = 50;

interface Work {
  readonly name: string;
  readonly range: InputRange;
  readonly folder: string;
  readonly shared: Int32Array<SharedArrayBuffer>;
}

interface FromThread {
  readonly find?: SurfaceFind;
  readonly counts?: ReadonlyMap<string, number>;
}

/** A lane for a parser, in a thread that may hang or run out of memory without affecting the others. */
export class ThreadLane implements Lane {
  counts: ReadonlyMap<string, number> = new Map();
  readonly #shared = new Int32Array(new SharedArrayBuffer(4 * PLACES));
  readonly #folder = temporaryFolder();
  readonly #surface: Surface;

  constructor(
    readonly name: string,
    private readonly range: InputRange,
  ) {
    this.#surface = parserOf(name, this.#folder);
  }

  get sent(): number {
    return Atomics.load(this.#shared, SENT);
  }

  get paused(): boolean {
    return Atomics.load(this.#shared, PAUSED) === 1;
  }

  set paused(paused: boolean) {
    Atomics.store(this.#shared, PAUSED, paused ? 1 : 0);
  }

  suspects(): readonly number[] {
    return [Atomics.load(this.#shared, INDEX)];
  }

  inputAt(index: number): Buffer {
    return inputAt(this.#surface, this.range.seed, index);
  }

  stop(): void {
    Atomics.store(this.#shared, STOPPED, 1);
  }

  async run(onFind: (find: SurfaceFind) => void): Promise<void> {
    const work: Work = { name: this.name, range: this.range, folder: this.#folder, shared: this.#shared };
    const thread = new Worker(new URL(import.meta.url), { workerData: work });
    const ended = once(thread, "exit");
    thread.on("message", ({ find, counts }: FromThread) => {
      if (find !== undefined) onFind(find);
      if (counts !== undefined) this.counts = counts;
    });
    thread.on("error", (error) => onFind({ index: this.#index, what: `the thread ended: ${messageOf(error)}` }));
    const watching = this.#watch(thread, onFind);
    await ended;
    clearInterval(watching);
  }

  get #index(): number {
    return Atomics.load(this.#shared, INDEX);
  }

  #watch(thread: Worker, onFind: (find: SurfaceFind) => void): NodeJS.Timeout {
    const standstill = new Standstill(STUCK_MS);
    return setInterval(() => {
      const step = this.paused ? Number.NaN : this.#index;
      if (!standstill.look(step, performance.now(), this.#keptFromRunningMs())) return;
      onFind({ index: step, what: `no end within ${STUCK_MS} ms` });
      void thread.terminate();
    }, LOOK_MS);
  }

  #keptFromRunningMs(): number {
    return waitedForTurnsMs(process.pid, Atomics.load(this.#shared, THREAD));
  }
}

async function runThread({ name, range, folder, shared }: Work): Promise<void> {
  const surface = parserOf(name, folder);
  const counts = new Counts();
  const { first, last = Number.POSITIVE_INFINITY, seed } = range;
  Atomics.store(shared, THREAD, threadId());
  for (let index = first; index <= last && Atomics.load(shared, STOPPED) === 0; index++) {
    while (Atomics.load(shared, PAUSED) === 1 && Atomics.load(shared, STOPPED) === 0) await sleep(LOOK_MS);
    Atomics.store(shared, INDEX, index);
    const what = await sendTimed(surface, inputAt(surface, seed, index), counts);
    if (what !== undefined) parentPort?.postMessage({ find: { index, what } } satisfies FromThread);
    Atomics.add(shared, SENT, 1);
    if (index % INPUTS_BEFORE_A_REST === 0) await sleep(REST_MS);
  }
  // Copies the counts into a Map, because a subclass of Map cannot be sent between threads.
  parentPort?.postMessage({ counts: new Map([...(surface.counts ?? []), ...counts]) } satisfies FromThread);
  await surface.close?.();
}

/**
 * Sends an input, and returns its fault, or undefined. Only time in which the thread ran counts, because waiting for a
 * processor is not the parser's fault. An input counts as slow when it is slow twice: a stopped virtual machine also
 * counts as running, but does not stop at the same input again.
 */
export async function sendTimed(surface: Surface, input: Buffer, counts: Counts): Promise<string | undefined> {
  try {
    if ((await ranMsFor(surface, input)) < SLOW_MS) return undefined;
    const againMs = await ranMsFor(surface, input);
    if (againMs >= SLOW_MS) return `took ${Math.round(againMs)} ms`;
    counts.add("slow once, not twice");
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

async function ranMsFor(surface: Surface, input: Buffer): Promise<number> {
  const startedMs = ranForMs();
  await surface.send(input);
  return ranForMs() - startedMs;
}

if (!isMainThread && workerData?.shared !== undefined) await runThread(workerData as Work);
