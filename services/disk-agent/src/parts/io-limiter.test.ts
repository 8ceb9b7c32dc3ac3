import type { IoLimits } from "@diskmesh/domain";
import { ManualClock } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { IoLimiter } from "./io-limiter.js";

const limits = (change: Partial<IoLimits>): IoLimits => ({
  readIops: 0,
  writeIops: 0,
  readBytesPerSecond: 0,
  writeBytesPerSecond: 0,
  burstSeconds: 0,
  ...change,
});

describe("the limiter of a disk's I/O", () => {
  let clock: ManualClock;
  let begun: string[];
  let limiter: IoLimiter;

  const begin = (limit: IoLimits | undefined) => {
    clock = new ManualClock();
    begun = [];
    limiter = new IoLimiter(clock, limit);
  };
  const ask = (name: string, direction: "read" | "write" = "read"): void => {
    const admitted = limiter.admit(direction, 1);
    const note = () => void begun.push(`${name} at ${clock.monotonicMs()}`);
    if (admitted === undefined) note();
    else void admitted.then(note);
  };

  it("admits operations in their order, each once its budget is there; the other direction does not wait", async () => {
    begin(limits({ readIops: 10 }));
    for (const name of ["a", "b", "c"]) ask(name);
    ask("w", "write");
    await clock.advance(1_000);
    expect(begun).to.deep.equal(["a at 0", "w at 0", "b at 1", "c at 101"]);
    expect(clock.sleepers).to.equal(0);
  });

  it("a later operation does not overtake one that waits", async () => {
    begin(limits({ readIops: 10 }));
    for (const name of ["a", "b", "c"]) ask(name);
    await clock.advance(50);
    ask("d");
    await clock.advance(1_000);
    expect(begun.map((each) => each[0])).to.deep.equal(["a", "b", "c", "d"]);
  });

  it("an operation that comes while a timer is late does not overtake those that wait for the timer", () => {
    let nowMs = 0;
    const late = new IoLimiter({ monotonicMs: () => nowMs, after: () => () => {} }, limits({ readIops: 10 }));
    expect(late.admit("read", 1)).to.equal(undefined);
    expect(late.admit("read", 1)).to.be.instanceOf(Promise);
    nowMs = 10_000;
    expect(late.admit("read", 1)).to.be.instanceOf(Promise);
  });

  it("other limits hold at once for those that wait", async () => {
    begin(limits({ readIops: 1 }));
    for (const name of ["a", "b", "c", "d"]) ask(name);
    await clock.advance(10);
    expect(begun).to.deep.equal(["a at 0"]);
    limiter.set(limits({ readIops: 100 }));
    await clock.advance(25);
    expect(begun.length).to.equal(3);
    limiter.set(undefined);
    await clock.advance(0);
    expect(begun.length).to.equal(4);
    expect(clock.sleepers).to.equal(0);
  });
});
