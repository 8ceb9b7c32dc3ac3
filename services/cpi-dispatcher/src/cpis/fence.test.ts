import { AbortedError, CancelledError, OutdatedError, ResourceExhaustedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { Fence } from "./fence.js";

const never = new AbortController().signal;
const director = (generation: number, directorId = "d1") => ({ directorId, generation });
const named = (requestId: string, callId = "") => ({ requestId, callId });
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** Work that ends only on request and shows whether it was aborted. */
class Work {
  signal: AbortSignal | undefined;
  end = () => {};
  readonly run = (signal: AbortSignal): Promise<string> => {
    this.signal = signal;
    return new Promise((resolve) => {
      this.end = () => resolve("ended");
    });
  };
}

describe("the fence", () => {
  let fence: Fence;
  beforeEach(() => {
    fence = new Fence(2);
  });

  it("lets calls of the same and of higher generations run", async () => {
    await fence.raise(director(3), never);
    expect(await fence.run(director(3), never, async () => "same")).to.equal("same");
    expect(await fence.run(director(4), never, async () => "higher")).to.equal("higher");
  });

  it("refuses lower generations, and names both generations", async () => {
    await fence.raise(director(3), never);
    let hasRun = false;
    const error = await rejection(
      fence.run(director(2), never, async () => {
        hasRun = true;
      }),
      OutdatedError,
    );
    expect(error).to.be.instanceOf(OutdatedError).with.property("message").that.includes("2").and.includes("3");
    // A director that was restored from a backup must claim above this generation.
    expect(error.about.leading_generation).to.equal("3");
    await rejection(fence.raise(director(1), never), OutdatedError);
    expect(hasRun).to.equal(false);
  });

  it("aborts calls of lower generations and answers once they have ended", async () => {
    const work = new Work();
    const running = fence.run(director(1), never, work.run);
    await settled();
    let isRaised = false;
    const raising = fence.raise(director(2), never).then(() => {
      isRaised = true;
    });
    await settled();
    expect(work.signal?.aborted).to.equal(true);
    expect(work.signal?.reason).to.be.instanceOf(CancelledError).with.property("message").that.includes("generation 2");
    expect(isRaised).to.equal(false);
    work.end();
    await raising;
    expect(await running).to.equal("ended");
  });

  it("ends only the calls of one request id, and answers once they have ended", async () => {
    const [one, same, other, foreign] = [new Work(), new Work(), new Work(), new Work()];
    const running = [
      fence.run(director(1), never, one.run, named("task-1")),
      fence.run(director(1), never, same.run, named("task-1")),
      fence.run(director(1), never, other.run, named("task-2")),
      fence.run(director(1, "d2"), never, foreign.run, named("task-1")),
    ];
    await settled();
    let calls = -1;
    const ending = fence.endCalls(director(1), named("task-1"), never).then((count) => {
      calls = count;
    });
    await settled();
    expect([one, same, other, foreign].map(({ signal }) => signal?.aborted)).to.deep.equal([true, true, false, false]);
    one.end();
    await settled();
    expect(calls).to.equal(-1);
    same.end();
    await ending;
    expect(calls).to.equal(2);
    for (const work of [other, foreign]) work.end();
    await Promise.all(running);
    expect(await fence.endCalls(director(1), named("task-1"), never)).to.equal(0);
    await fence.raise(director(2), never);
    await rejection(fence.endCalls(director(1), named("task-2"), never), OutdatedError);
  });

  it("ends a single call, and refuses it if it arrives later", async () => {
    const [one, same] = [new Work(), new Work()];
    const running = [
      fence.run(director(1), never, one.run, named("task-1", "call-1")),
      fence.run(director(1), never, same.run, named("task-1", "call-2")),
    ];
    await settled();
    const ending = fence.endCalls(director(1), named("task-1", "call-1"), never);
    expect([one, same].map(({ signal }) => signal?.aborted)).to.deep.equal([true, false]);
    one.end();
    expect(await ending).to.equal(1);
    expect(await fence.endCalls(director(1), named("task-1", "call-3"), never)).to.equal(0);
    const late = new Work();
    await rejection(
      fence.run(director(1), never, late.run, named("task-1", "call-3")),
      AbortedError,
      "before it arrived",
    );
    expect(late.signal).to.equal(undefined);
    same.end();
    await Promise.all(running);
    expect(await fence.run(director(1), never, async () => "nameless", named("task-1"))).to.equal("nameless");
  });

  it("holds back a call of a higher generation until lower ones have ended, even without a fence", async () => {
    const [old, young] = [new Work(), new Work()];
    const running = fence.run(director(1), never, old.run);
    await settled();
    const next = fence.run(director(2), never, young.run);
    await settled();
    expect(old.signal?.aborted).to.equal(true);
    expect(young.signal).to.equal(undefined);
    old.end();
    await running;
    await settled();
    expect(young.signal?.aborted).to.equal(false);
    young.end();
    expect(await next).to.equal("ended");
  });

  it("refuses a call that was outdated while it waited", async () => {
    const [first, second] = [new Work(), new Work()];
    const running = fence.run(director(1), never, first.run);
    await settled();
    const overtaken = rejection(fence.run(director(2), never, second.run));
    const raising = fence.raise(director(3), never);
    first.end();
    await running;
    expect(await overtaken).to.be.instanceOf(OutdatedError);
    expect(second.signal).to.equal(undefined);
    await raising;
  });

  it("waits for a call of a lower generation that fails, too", async () => {
    const failing = fence.run(
      director(1),
      never,
      (signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    );
    const failed = rejection(failing);
    await settled();
    await fence.raise(director(2), never);
    expect(await failed).to.be.instanceOf(CancelledError);
  });

  it("stays raised when the wait is given up, and another can wait again", async () => {
    const work = new Work();
    const running = fence.run(director(1), never, work.run);
    await settled();
    const patience = new AbortController();
    const raising = rejection(fence.raise(director(2), patience.signal));
    patience.abort(new Error("enough"));
    expect(await raising).to.have.property("message", "enough");
    await rejection(
      fence.run(director(1), never, async () => {}),
      OutdatedError,
    );
    const again = fence.raise(director(2), never);
    work.end();
    await Promise.all([running, again]);
  });

  it("aborts a call with its caller", async () => {
    const work = new Work();
    const caller = new AbortController();
    const running = fence.run(director(1), caller.signal, work.run);
    await settled();
    caller.abort(new Error("caller left"));
    expect(work.signal?.reason).to.have.property("message", "caller left");
    work.end();
    await running;
  });

  it("keeps directors apart, up to a limit", async () => {
    await fence.raise(director(9, "d1"), never);
    expect(await fence.run(director(1, "d2"), never, async () => "free")).to.equal("free");
    await rejection(fence.raise(director(1, "d3"), never), ResourceExhaustedError);
  });
});
