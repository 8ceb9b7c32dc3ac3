import { expect } from "chai";
import { Slots } from "./slots.js";

describe("slots", () => {
  it("run as many at once as there are slots, in the order of the calls", async () => {
    const slots = new Slots(2);
    const order: number[] = [];
    const ends: (() => void)[] = [];
    const all = [1, 2, 3, 4].map((number) =>
      slots.run(() => {
        order.push(number);
        return new Promise<void>((end) => ends.push(end));
      }),
    );
    await new Promise(setImmediate);
    expect([order, slots.inUse, slots.waiting]).to.deep.equal([[1, 2], 4, 2]);
    for (let ended = 0; ended < 4; ended++) {
      ends[ended]?.();
      await new Promise(setImmediate);
    }
    await Promise.all(all);
    expect([order, slots.inUse]).to.deep.equal([[1, 2, 3, 4], 0]);
  });

  it("skip a caller that aborted, and pass its slot to the next one, once", async () => {
    const slots = new Slots(1);
    const release = await slots.acquire();
    const leaving = new AbortController();
    const left = slots.acquire(leaving.signal).catch((error: Error) => error.message);
    const next = slots.acquire();
    leaving.abort(new Error("gone"));
    expect(await left).to.equal("gone");
    expect(slots.waiting).to.equal(1);
    release();
    release();
    (await next)();
    expect(slots.inUse).to.equal(0);
    expect(await slots.acquire(leaving.signal).catch((error: Error) => error.message)).to.equal("gone");
  });
});
