import { expect } from "chai";
import { hostId } from "../testing/fleet-fixture.js";
import { Liveness } from "./liveness.js";

const h1 = hostId("h1");

describe("the liveness of hosts", () => {
  let nowMs: number;
  let liveness: Liveness;

  beforeEach(() => {
    nowMs = 0;
    const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs } as never;
    liveness = new Liveness(clock, { intervalMs: 1_000, missedUntilSuspected: 2, timeoutMs: 10_000 });
  });
  const inPlaceAt = (atMs: number): boolean => {
    nowMs = atMs;
    return liveness.isInPlace(h1);
  };

  it("a start without a heartbeat counts as alive for two intervals, one with a heartbeat for the timeout", () => {
    liveness.hearRegistration(h1, "boot-1");
    expect([2_000, 2_001].map(inPlaceAt)).to.deep.equal([true, false]);
    liveness.hear(h1);
    liveness.hearRegistration(h1, "boot-1");
    expect([12_001, 12_002].map(inPlaceAt), "registered again").to.deep.equal([true, false]);
    liveness.hear(h1);
    liveness.hearRegistration(h1, "boot-2");
    expect([14_002, 14_003].map(inPlaceAt), "another start").to.deep.equal([true, false]);
  });

  it("after a takeover each start counts as alive, and any host may still be heard, for the timeout", () => {
    expect([10_000, 10_001].map(inPlaceAt)).to.deep.equal([true, false]);
    const mayYetBeHeard = (atMs: number): boolean => {
      nowMs = atMs;
      return liveness.mayYetBeHeard(h1);
    };
    expect([10_000, 10_001].map(mayYetBeHeard)).to.deep.equal([true, false]);
    nowMs = 5_000;
    liveness.hear(h1);
    expect(mayYetBeHeard(6_000), "it was heard").to.equal(false);
  });
});
