import { ManualClock } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { EraseRate } from "./erase-rate.js";

const settled = () => new Promise((resolve) => setImmediate(resolve));

describe("the rate of erases", () => {
  let clock: ManualClock;
  let rate: EraseRate;
  /** Started writes: device and time. */
  let begun: string[];

  beforeEach(() => {
    clock = new ManualClock();
    rate = new EraseRate({ maxAtOnce: 2, maxBytesPerSecond: 1_000, slowAfterMs: 5_000 }, clock);
    begun = [];
  });

  /** Runs an erase of `writes` writes of 100 bytes; `write` performs each one. */
  const erase = (
    device: string,
    writes: number,
    write: () => Promise<void> = async () => {},
    yields: () => boolean = () => false,
  ) =>
    rate
      .limit(async (limited) => {
        for (let at = 0; at < writes; at++)
          await limited(100, () => {
            begun.push(`${device} ${clock.monotonicMs()}`);
            return write();
          });
      }, yields)
      .then(
        () => begun.push(`${device} done`),
        (error: Error) => begun.push(`${device} failed: ${error.message}`),
      );

  it("runs two of three devices at a time, the third when one is done, and writes 100 bytes each 100 ms", async () => {
    for (const device of ["a", "b", "c"]) void erase(device, 2);
    await clock.advance(10_000);
    expect(begun).to.deep.equal([
      "a 0",
      "b 100",
      "a 200",
      "a done",
      "b 300",
      "b done",
      ...["c 400", "c 500", "c done"],
    ]);
  });

  it("keeps to a tenth of the rate while it yields, and takes no slot from others meanwhile", async () => {
    let isUsed = true;
    for (const device of ["a", "b"]) void erase(device, 9, undefined, () => isUsed);
    void erase("c", 3);
    await clock.advance(2_500);
    const times = (device: string) =>
      begun.flatMap((each) => (each.startsWith(`${device} `) && !each.endsWith("done") ? Number(each.slice(2)) : []));
    expect(times("a")).to.have.length(3);
    expect(times("a")[2]).to.be.within(2_000, 2_200);
    expect(begun).to.include("c done");
    expect(times("c").at(-1)).to.be.below(1_000);
    isUsed = false;
    await clock.advance(2_500);
    expect(begun).to.include.members(["a done", "b done"]);
  });

  it("changes for writes that wait, within a second", async () => {
    rate.set(1);
    void erase("a", 1);
    void erase("b", 2);
    await clock.advance(10_500);
    expect(begun).to.deep.equal(["a 0", "a done"]);
    rate.set(1_000);
    await clock.advance(2_000);
    expect(begun.slice(2)).to.deep.equal(["b 11000", "b 11000", "b done"]);
  });

  it("passes the place of a hanging write to another device; it waits for a place once it continues", async () => {
    let release: () => void = () => {};
    const hung = new Promise<void>((resolve) => {
      release = resolve;
    });
    void erase("a", 2, () => hung);
    void erase("b", 1, () => hung);
    void erase("c", 40);
    void erase("d", 40);
    await clock.advance(4_000);
    expect(begun, "c and d wait").to.deep.equal(["a 0", "b 100"]);
    await clock.advance(2_000);
    expect(begun.slice(2, 5)).to.deep.equal(["c 5000", "c 5100", "d 5200"]);
    release();
    await clock.advance(1_000);
    expect(begun, "b was at its end").to.include("b done");
    expect(
      begun.filter((entry) => entry.startsWith("a")),
      "a waits for c or d",
    ).to.have.length(1);
    await clock.advance(20_000);
    expect(begun).to.include.members(["a done", "c done", "d done"]);
  });

  it("frees the place of a failed write", async () => {
    const fails = () => erase("a", 1, () => Promise.reject(new Error("EIO")));
    for (let at = 0; at < 3; at++) void fails();
    await clock.advance(1_000);
    expect(begun.filter((entry) => entry === "a failed: EIO")).to.have.length(3);
  });

  it("fails running and waiting writes when stopped", async () => {
    for (const device of ["a", "b", "c"]) void erase(device, 100);
    await clock.advance(150);
    rate.stop();
    await settled();
    expect(begun.filter((entry) => entry.endsWith("failed: the agent is stopping"))).to.have.length(3);
  });
});
