import { expect } from "chai";
import { type Clock, systemClock } from "./clock.js";
import { ManualClock, rejection } from "./testing/index.js";

describe("clocks", () => {
  const manual = new ManualClock(1000);
  const clocks: readonly [string, Clock, (ms: number) => Promise<unknown>][] = [
    ["systemClock", systemClock, () => Promise.resolve()],
    ["ManualClock", manual, (ms) => manual.advance(ms)],
  ];
  for (const [name, clock, pass] of clocks) {
    it(`${name} sleeps for the given time`, async () => {
      const startedMs = clock.monotonicMs();
      await Promise.all([clock.sleep(30), pass(30)]);
      expect(clock.monotonicMs() - startedMs).to.be.within(29, 10_000);
    });

    it(`${name} wakes with the reason when the signal aborts, before or while it sleeps`, async () => {
      const reason = new Error("enough");
      const aborting = new AbortController();
      const sleeping = clock.sleep(60_000, aborting.signal).catch((error: unknown) => error);
      aborting.abort(reason);
      expect(await sleeping).to.equal(reason);
      expect(await rejection(clock.sleep(1, AbortSignal.abort(reason)))).to.equal(reason);
    });
  }

  it("ManualClock wakes sleepers in the order of their times, also those that begin meanwhile", async () => {
    const clock = new ManualClock();
    const woken: string[] = [];
    const sleep = async (name: string, ms: number): Promise<void> => {
      await clock.sleep(ms);
      woken.push(`${name}@${clock.monotonicMs()}`);
    };
    void sleep("c", 30);
    void sleep("a", 10).then(() => sleep("b", 10));
    await clock.advance(30);
    expect(woken).to.deep.equal(["a@10", "b@20", "c@30"]);
    expect(clock.sleepers).to.equal(0);
  });
});
