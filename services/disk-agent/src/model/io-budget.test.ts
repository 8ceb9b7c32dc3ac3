import type { IoLimits } from "@diskmesh/domain";
import { expect } from "chai";
import { type IoBudget, type IoDirection, limited, spend, UNLIMITED } from "./io-budget.js";

const NONE: IoLimits = { readIops: 0, writeIops: 0, readBytesPerSecond: 0, writeBytesPerSecond: 0, burstSeconds: 0 };

/** Runs operations as soon as each may begin, and returns the times at which they began. */
function timesOf(start: IoBudget, operations: readonly { direction: IoDirection; sizeBytes: number }[]): number[] {
  let budget = start;
  let nowMs = 0;
  return operations.map(({ direction, sizeBytes }) => {
    for (;;) {
      const spent = spend(budget, direction, sizeBytes, nowMs);
      budget = spent.budget;
      if (spent.waitMs === 0) return nowMs;
      nowMs += spent.waitMs;
    }
  });
}

const reads = (count: number, sizeBytes = 4_096) => Array(count).fill({ direction: "read", sizeBytes } as const);

describe("the budget of a disk's I/O", () => {
  it("without limits -> nothing waits", () => {
    expect(timesOf(UNLIMITED, reads(1_000))).to.deep.equal(Array(1_000).fill(0));
  });

  const rows: readonly [string, Partial<IoLimits>, ReturnType<typeof reads>, number, number][] = [
    ["10 reads a second", { readIops: 10 }, reads(21), 0, 1_900],
    ["100 reads a second, 10 of which the default burst has", { readIops: 100 }, reads(111), 9, 1_000],
    ["100 reads a second with a burst of 2 s", { readIops: 100, burstSeconds: 2 }, reads(301), 199, 1_000],
    ["4 KiB/s of reads", { readBytesPerSecond: 4_096 }, reads(11), 0, 9_900],
    [
      "an operation of twice the bytes a second",
      { readBytesPerSecond: 4_096, burstSeconds: 1 },
      reads(3, 8_192),
      0,
      3_000,
    ],
    ["the slower of two limits", { readIops: 1_000, readBytesPerSecond: 4_096 }, reads(11), 0, 9_900],
    ["limits of writes alone", { writeIops: 1, writeBytesPerSecond: 1 }, reads(100), 99, 0],
  ];
  for (const [what, limits, operations, lastAtOnce, lastMs] of rows)
    it(`${what} -> the last of ${operations.length} begins at ${lastMs} ms`, () => {
      const times = timesOf(limited(UNLIMITED, { ...NONE, ...limits }, 0), operations);
      expect(times[lastAtOnce], "the last of the burst").to.equal(0);
      // Each wait is rounded up to a millisecond.
      expect(times.at(-1)).to.be.within(lastMs, lastMs + operations.length);
    });

  it("limits of writes hold for writes", () => {
    const write = { direction: "write", sizeBytes: 10 } as const;
    const times = timesOf(limited(UNLIMITED, { ...NONE, writeBytesPerSecond: 10 }, 0), [write, write]);
    expect(times[0]).to.equal(0);
    expect(times[1]).to.be.within(900, 902);
  });

  it("an idle disk saves up no more than its burst", () => {
    const full = limited(UNLIMITED, { ...NONE, readIops: 10, burstSeconds: 1 }, 0);
    let { budget } = spend(full, "read", 1, 3_600_000);
    for (let left = 9; left > 0; left--) budget = spend(budget, "read", 1, 3_600_000).budget;
    expect(spend(budget, "read", 1, 3_600_000).waitMs).to.be.within(1, 100);
  });

  it("other limits -> what is overdrawn stays so, at the new rate", () => {
    const slow = limited(UNLIMITED, { ...NONE, readBytesPerSecond: 1 }, 0);
    const overdrawn = spend(slow, "read", 100, 0).budget;
    expect(spend(overdrawn, "read", 1, 0).waitMs).to.be.within(99_000, 101_000);
    const faster = limited(overdrawn, { ...NONE, readBytesPerSecond: 1_000 }, 0);
    expect(spend(faster, "read", 1, 0).waitMs).to.be.within(99, 101);
    expect(spend(limited(overdrawn, undefined, 0), "read", 1, 0).waitMs).to.equal(0);
  });

  it("a time that went back earns nothing", () => {
    const budget = spend(limited(UNLIMITED, { ...NONE, readIops: 1 }, 1_000), "read", 1, 1_000).budget;
    expect(spend(budget, "read", 1, 0).waitMs).to.be.within(900, 902);
  });
});
