import { expect } from "chai";
import { aDevice, diskId, MIB } from "../../testing/fleet-fixture.js";
import type { Run } from "./runs.js";
import {
  bytesOf,
  defaultSliceBytes,
  fitted,
  freeRanges,
  isSliceSize,
  lengthenedCount,
  MAX_RUNS_OF_DEVICE,
  partBytesIn,
  sliceCount,
  spacesOf,
  spacesOnceErased,
} from "./slices.js";

const KIB = 1_024;
const GIB = 1_024 * MIB;
const X = diskId("x");
const run = (first: number, count: number, disk = X): Run => ({ first, count, diskId: disk });
const dirty = (first: number, count: number): Run => ({ first, count, diskId: "" });
/** A device of 16 slices of 1 MiB. */
const sliced = (...runs: readonly Run[]) => ({
  ...aDevice("d1", { sizeBytes: 16 * MIB + 64 * KIB, sliceBytes: MIB }),
  runs,
});

describe("slices", () => {
  for (const [sizeBytes, expected] of [
    [1, MIB],
    [64 * MIB, MIB],
    [GIB, MIB],
    [GIB + 1, 2 * MIB],
    [64 * GIB, 64 * MIB],
    [4_000 * GIB, 64 * MIB],
  ] as const)
    it(`a device of ${sizeBytes} bytes -> ${expected} bytes each by default`, () => {
      expect(defaultSliceBytes(sizeBytes)).to.equal(expected);
      expect(isSliceSize(expected)).to.equal(true);
    });

  it("have a size that is a power of two from 1 MiB to 16 GiB", () => {
    const sizes = [0, MIB / 2, MIB, MIB + 1, 3 * MIB, 16 * GIB, 32 * GIB];
    expect(sizes.map(isSliceSize)).to.deep.equal([false, false, true, false, false, true, false]);
  });

  it("begin behind the label area, and a run has room for a record beside its part", () => {
    const small = sliced();
    expect(sliceCount(small)).to.equal(16);
    expect(sliceCount({ sizeBytes: 16 * MIB, sliceBytes: MIB }), "no room for the label").to.equal(15);
    expect(bytesOf(small, run(2, 3))).to.deep.equal({ offsetBytes: 64 * KIB + 2 * MIB, sizeBytes: 3 * MIB });
    expect(partBytesIn(MIB, 3)).to.equal(3 * MIB - 64 * KIB);
    const large = { sizeBytes: 4_000 * GIB, sliceBytes: 64 * MIB };
    expect(bytesOf(large, run(1, 1))).to.deep.equal({ offsetBytes: 65 * MIB, sizeBytes: 64 * MIB });
    expect(partBytesIn(64 * MIB, 1)).to.equal(63 * MIB);
  });

  it("a run of 0.1.0 covers all bytes", () => {
    const whole = { first: 0, diskId: X };
    expect(bytesOf(sliced(whole), whole)).to.deep.equal({ offsetBytes: 0, sizeBytes: 16 * MIB + 64 * KIB });
  });

  const free: readonly [string, readonly Run[], readonly string[]][] = [
    ["no run", [], ["0+16"]],
    ["a run of 0.1.0", [{ first: 0, diskId: X }], []],
    ["a whole device to erase", [{ first: 0, diskId: "" }], []],
    ["runs at both ends", [run(0, 1), run(15, 1)], ["1+14"]],
    ["runs side by side, one of them dirty", [run(2, 3), dirty(5, 2)], ["0+2", "7+9"]],
    ["no slice free", [run(0, 16)], []],
  ];
  for (const [what, runs, expected] of free)
    it(`${what} -> free are ${expected.join(", ") || "none"}`, () => {
      expect(freeRanges(sliced(...runs)).map(({ first, count }) => `${first}+${count}`)).to.deep.equal(expected);
    });

  it("free ones are offered largest first, dirty ones once they are erased", () => {
    const device = sliced(run(2, 3), dirty(5, 2));
    const shown = (spaces: ReturnType<typeof spacesOf>) =>
      spaces.map(({ sizeBytes, slices }) => `${slices?.first}+${slices?.count} of ${sizeBytes / KIB} KiB`);
    expect(shown(spacesOf(device))).to.deep.equal(["7+9 of 9152 KiB", "0+2 of 1984 KiB"]);
    expect(shown(spacesOnceErased(device))).to.deep.equal(["5+11 of 11200 KiB", "0+2 of 1984 KiB"]);
  });

  it("are offered while the device may have more runs", () => {
    const runs = Array.from({ length: MAX_RUNS_OF_DEVICE - 1 }, (_, i) => run(2 * i, 1));
    const device = { ...aDevice("d1", { sizeBytes: 4 * GIB, sliceBytes: MIB }), runs };
    expect(spacesOf(device)).to.have.length(1);
    expect(spacesOf({ ...device, runs: [...runs, run(4_000, 1)] })).to.deep.equal([]);
  });

  for (const [partBytes, count, sizeBytes] of [
    [1, 1, 4 * KIB],
    [MIB - 64 * KIB, 1, MIB - 64 * KIB],
    [MIB - 64 * KIB + 1, 2, MIB - 60 * KIB],
    [MIB, 2, MIB],
    [100 * MIB, 16, 16 * MIB - 64 * KIB],
  ] as const)
    it(`a part of ${partBytes} bytes takes ${count} of 16`, () => {
      const [space] = spacesOf(sliced());
      const taken = space && fitted(space, partBytes);
      expect(taken?.slices?.count).to.equal(count);
      expect(taken?.sizeBytes).to.equal(sizeBytes);
    });

  for (const [what, runs, partBytes, count] of [
    ["with room behind", [run(2, 3)], 5 * MIB, 6],
    ["with too little room behind", [run(2, 3), run(6, 1)], 5 * MIB, 4],
    ["with a dirty run behind", [run(2, 3), dirty(5, 1)], 5 * MIB, 3],
    ["at the end of the device", [run(13, 3)], 5 * MIB, 3],
    ["that is long enough", [run(2, 3)], MIB, 3],
  ] as const)
    it(`a run of 3 slices ${what} is lengthened to ${count}`, () => {
      expect(lengthenedCount(sliced(...runs), runs[0], partBytes)).to.equal(count);
    });
});
