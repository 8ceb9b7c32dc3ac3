import { setImmediate as nextTurn } from "node:timers/promises";
import { expect } from "chai";
import { RangeLocks } from "./range-locks.js";

describe("locks of byte ranges", () => {
  const begun: string[] = [];
  const take = async (locks: RangeLocks, name: string, startBytes: number, sizeBytes: number) => {
    const release = await locks.take(startBytes, sizeBytes);
    begun.push(name);
    return release;
  };

  beforeEach(() => {
    begun.length = 0;
  });

  it("let disjoint ranges run at once, and overlapping ones one after another", async () => {
    const locks = new RangeLocks();
    const first = await take(locks, "first", 0, 10);
    const second = take(locks, "second", 9, 10);
    const third = take(locks, "third", 15, 10);
    await take(locks, "far", 25, 10);
    await nextTurn();
    expect(begun).to.deep.equal(["first", "far"]);
    first();
    (await second)();
    (await third)();
    expect(begun).to.deep.equal(["first", "far", "second", "third"]);
  });

  it("keep nobody waiting once they are open", async () => {
    const locks = new RangeLocks();
    await take(locks, "first", 0, 10);
    const second = take(locks, "second", 0, 10);
    locks.open();
    await second;
    await take(locks, "third", 0, 10);
    expect(begun).to.deep.equal(["first", "second", "third"]);
  });
});
