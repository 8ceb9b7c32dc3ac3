import { AbortedError, ResourceExhaustedError } from "@diskmesh/domain";
import { ManualClock } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { type WorkFailure, WorkQueue, type WorkQueueOptions, type WorkResult } from "./work-queue.js";

interface Run {
  readonly key: string;
  readonly atMs: number;
  readonly signal: AbortSignal;
  end(result: WorkResult): void;
  fail(error: unknown): void;
}

describe("WorkQueue", () => {
  let clock: ManualClock;
  let queue: WorkQueue;
  let runs: Run[];
  let failures: WorkFailure[];

  /** Creates a queue whose runs the test ends. */
  function makeQueue(options: Partial<WorkQueueOptions> = {}): void {
    clock = new ManualClock();
    runs = [];
    failures = [];
    queue = new WorkQueue({
      name: "hosts",
      concurrency: 2,
      backoff: { minDelayMs: 100, maxDelayMs: 1000 },
      clock,
      random: () => 1,
      process: (key, signal) =>
        new Promise((end, fail) => {
          runs.push({ key, atMs: clock.monotonicMs(), signal, end, fail });
        }),
      onFailure: (failure) => failures.push(failure),
      ...options,
    });
  }
  const settle = () => clock.advance(0);
  const keys = () => runs.map((run) => run.key);

  beforeEach(() => makeQueue());
  afterEach(async () => {
    for (const run of runs) run.end("done");
    await queue.close();
  });

  it("runs a key that is enqueued, once, and not within enqueue", async () => {
    queue.enqueue("a");
    queue.enqueue("a");
    expect(keys()).to.deep.equal([]);
    await settle();
    expect(keys()).to.deep.equal(["a"]);
    runs[0]?.end("done");
    await clock.advance(60_000);
    expect(keys()).to.deep.equal(["a"]);
    expect(queue.counts).to.deep.equal({ ready: 0, running: 0, waiting: 0 });
  });

  it("runs as many keys as allowed at once, in the order they came", async () => {
    for (const key of ["a", "b", "c", "d"]) queue.enqueue(key);
    await settle();
    expect(keys()).to.deep.equal(["a", "b"]);
    expect(queue.counts).to.deep.equal({ ready: 2, running: 2, waiting: 0 });
    runs[1]?.end("done");
    await settle();
    expect(keys()).to.deep.equal(["a", "b", "c"]);
    runs[0]?.end("done");
    runs[2]?.end("done");
    await settle();
    expect(keys()).to.deep.equal(["a", "b", "c", "d"]);
  });

  it("runs a key again that is enqueued while it runs, after that run", async () => {
    queue.enqueue("a");
    await settle();
    for (let times = 0; times < 3; times++) queue.enqueue("a");
    await settle();
    expect(keys()).to.deep.equal(["a"]);
    runs[0]?.end("done");
    await settle();
    expect(keys()).to.deep.equal(["a", "a"]);
    runs[1]?.end("done");
    await clock.advance(60_000);
    expect(keys()).to.deep.equal(["a", "a"]);
  });

  it("repeats a failed run, with delays that grow to the limit and start over after a success", async () => {
    queue.enqueue("a");
    for (let index = 0; index < 6; index++) {
      await clock.advance(2000);
      runs[index]?.fail(new Error("no"));
      await settle();
    }
    expect(failures.map((failure) => failure.retryInMs)).to.deep.equal([100, 200, 400, 800, 1000, 1000]);
    expect(failures.map((failure) => failure.attempts)).to.deep.equal([1, 2, 3, 4, 5, 6]);
    await clock.advance(1000);
    runs[6]?.end("done");
    await settle();
    queue.enqueue("a");
    await settle();
    runs[7]?.fail(new Error("no"));
    await settle();
    expect(failures.at(-1)).to.include({ queue: "hosts", key: "a", attempts: 1, retryInMs: 100 });
  });

  it("runs a failed key exactly when its delay is over", async () => {
    queue.enqueue("a");
    await settle();
    runs[0]?.fail(new Error("no"));
    await settle();
    await clock.advance(99);
    expect(runs).to.have.length(1);
    expect(queue.counts.waiting).to.equal(1);
    await clock.advance(1);
    expect(runs).to.have.length(2);
    expect(runs[1]?.atMs).to.equal(100);
  });

  it("waits longer when the error asks for it, but never shorter", async () => {
    queue.enqueue("a");
    queue.enqueue("b");
    await settle();
    runs[0]?.fail(new ResourceExhaustedError("full", { retryAfterMs: 5000 }));
    runs[1]?.fail(new AbortedError("again", { retryAfterMs: 1 }));
    await settle();
    expect(failures.map((failure) => failure.retryInMs)).to.deep.equal([5000, 100]);
  });

  it("runs again after the time that a run asks for, which ends a row of failures", async () => {
    queue.enqueue("a");
    await settle();
    runs[0]?.fail(new Error("no"));
    await clock.advance(100);
    runs[1]?.end({ retryAfterMs: 5000 });
    await clock.advance(4999);
    expect(runs).to.have.length(2);
    await clock.advance(1);
    expect(runs).to.have.length(3);
    runs[2]?.fail(new Error("no"));
    await settle();
    expect(failures.map((failure) => failure.attempts)).to.deep.equal([1, 1]);
  });

  it("runs a waiting key at once when it is enqueued, once, and keeps its count of failures", async () => {
    queue.enqueue("a");
    await settle();
    runs[0]?.fail(new Error("no"));
    await settle();
    queue.enqueue("a");
    await settle();
    expect(runs).to.have.length(2);
    await clock.advance(60_000);
    expect(runs).to.have.length(2);
    runs[1]?.fail(new Error("no"));
    await settle();
    expect(failures.at(-1)?.attempts).to.equal(2);
  });

  it("waits after a failure also when the key was enqueued meanwhile", async () => {
    queue.enqueue("a");
    await settle();
    queue.enqueue("a");
    runs[0]?.fail(new Error("no"));
    await settle();
    expect(runs).to.have.length(1);
    await clock.advance(100);
    expect(runs).to.have.length(2);
    runs[1]?.end("done");
    await clock.advance(60_000);
    expect(runs).to.have.length(2);
  });

  it("runs other keys while one keeps failing", async () => {
    makeQueue({ concurrency: 1 });
    queue.enqueue("a");
    queue.enqueue("b");
    await settle();
    runs[0]?.fail(new Error("no"));
    await settle();
    expect(keys()).to.deep.equal(["a", "b"]);
  });

  it("continues when process throws before it returns, and when onFailure throws", async () => {
    let thrown = 0;
    makeQueue({
      process: () => {
        thrown++;
        throw new Error("at once");
      },
      onFailure: () => {
        throw new Error("log is full");
      },
    });
    queue.enqueue("a");
    await clock.advance(300);
    expect(thrown).to.equal(3);
  });

  it("aborts its runs when closed, waits for them, and starts no more", async () => {
    for (const key of ["a", "b", "c"]) queue.enqueue(key);
    await settle();
    runs[1]?.fail(new Error("no"));
    await settle();
    expect(keys()).to.deep.equal(["a", "b", "c"]);
    queue.enqueue("a");
    let closed = false;
    const closing = queue.close().then(() => {
      closed = true;
    });
    queue.enqueue("d");
    await settle();
    expect(closed).to.equal(false);
    expect(runs[0]?.signal.aborted).to.equal(true);
    runs[0]?.fail(runs[0].signal.reason);
    runs[2]?.end("done");
    await closing;
    await clock.advance(60_000);
    expect(keys()).to.deep.equal(["a", "b", "c"]);
    expect(failures).to.have.length(1);
    expect(clock.sleepers).to.equal(0);
    expect(queue.counts).to.deep.equal({ ready: 0, running: 0, waiting: 0 });
  });

  it("converges under random work: every key ends in the last state it was given", async () => {
    const wanted = new Map<string, number>();
    const seen = new Map<string, number>();
    const running = new Set<string>();
    let seed = 7;
    const random = () => {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      return seed / 2147483648;
    };
    makeQueue({
      concurrency: 3,
      random,
      process: async (key) => {
        expect(running.has(key), `${key} runs twice`).to.equal(false);
        expect(running.size).to.be.lessThan(3);
        running.add(key);
        const state = wanted.get(key) ?? 0;
        await clock.sleep(1 + random() * 20);
        running.delete(key);
        if (random() < 0.3) throw new Error("no");
        seen.set(key, state);
        return random() < 0.2 ? { retryAfterMs: 50 } : "done";
      },
    });
    for (let step = 1; step <= 2000; step++) {
      const key = `k${Math.floor(random() * 20)}`;
      wanted.set(key, step);
      queue.enqueue(key);
      if (random() < 0.3) await clock.advance(random() * 30);
    }
    await clock.advance(600_000);
    expect(seen).to.deep.equal(wanted);
  });
});
