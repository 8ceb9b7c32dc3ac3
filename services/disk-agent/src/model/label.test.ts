import type { DeviceId } from "@diskmesh/domain";
import { expect } from "chai";
import { type DeviceLabel, decodeLabel, type FoundLabel, LABEL_BYTES, labelWrites, whyOtherLabel } from "./label.js";

const MIB = 1024 * 1024;

function aLabel(digit: string): DeviceLabel {
  const ids = { fleetId: "tablet-1", deviceId: "dev-a" as DeviceId, labelId: digit.repeat(32) };
  return { ...ids, sizeBytes: 64 * MIB, sliceBytes: MIB, offsetBytes: 4096 };
}

/** Returns the label, or the state without one. */
const seen = (bytes: Buffer): DeviceLabel | string => {
  const found = decodeLabel(bytes);
  return found.state === "valid" ? found.label : found.state;
};

/** Writes the label as far as `writes` blocks, and returns what was found before. */
function write(bytes: Buffer, label: DeviceLabel, writes = 2): FoundLabel {
  const found = decodeLabel(bytes);
  for (const block of labelWrites(label, found).slice(0, writes)) block.bytes.copy(bytes, block.offsetBytes);
  return found;
}

describe("the label of a device", () => {
  let bytes: Buffer;
  beforeEach(() => {
    bytes = Buffer.alloc(LABEL_BYTES);
  });

  it("is read as it was written, from either slot", () => {
    expect(seen(bytes)).to.equal("none");
    write(bytes, aLabel("a"));
    expect(decodeLabel(bytes)).to.deep.equal({ state: "valid", label: aLabel("a"), counter: 1, slot: 0 });
    for (const start of [0, LABEL_BYTES / 2]) {
      const one = Buffer.from(bytes).fill(0, start, start + LABEL_BYTES / 2);
      expect(seen(one)).to.deep.equal(aLabel("a"));
    }
  });

  it("is whole at every moment of its replacement, whichever slot has it", () => {
    for (const [digit, slot] of [
      ["a", 0],
      ["b", 1],
    ] as const) {
      bytes = Buffer.alloc(LABEL_BYTES);
      write(bytes, aLabel(digit));
      // Leaves the label in one slot alone, as a kill between the two writes does.
      bytes.fill(0, (1 - slot) * (LABEL_BYTES / 2), (2 - slot) * (LABEL_BYTES / 2));
      const before = Buffer.from(bytes);
      const [first] = labelWrites(aLabel("c"), decodeLabel(bytes));
      if (first === undefined) throw new Error("there is no write");
      for (let torn = 0; torn <= first.bytes.length; torn += 512) {
        bytes = Buffer.from(before);
        first.bytes.copy(bytes, first.offsetBytes, 0, torn);
        // The text ends within the first sector, and zeros follow.
        expect(seen(bytes), `${digit} ${torn}`).to.deep.equal(aLabel(torn === 0 ? digit : "c"));
      }
      expect(write(Buffer.from(before), aLabel("c"))).to.include({ state: "valid", slot });
    }
  });

  it("is that of the other slot when any byte of a block is another one", () => {
    write(bytes, aLabel("a"));
    write(bytes, aLabel("b"), 1);
    const [newer, older] = [1, 0].map((slot) => slot * (LABEL_BYTES / 2));
    expect(seen(bytes)).to.deep.equal(aLabel("b"));
    for (let at = 0; at < 4_096; at++) {
      const torn = Buffer.from(bytes);
      torn[(newer ?? 0) + at] = (torn[(newer ?? 0) + at] ?? 0) ^ 0x10;
      expect(seen(torn), `byte ${at}`).to.deep.equal(aLabel("a"));
      torn[(older ?? 0) + 100] = 0;
      expect(seen(torn), `byte ${at} and both`).to.equal("damaged");
    }
  });

  it("is written over damaged ones and over those of later counters", () => {
    write(bytes, aLabel("a"));
    bytes[200] = 1;
    bytes[LABEL_BYTES / 2 + 200] = 1;
    expect(seen(bytes)).to.equal("damaged");
    write(bytes, aLabel("b"), 1);
    expect(seen(bytes)).to.deep.equal(aLabel("b"));
    for (const digit of ["c", "d", "e"]) {
      write(bytes, aLabel(digit));
      expect(seen(bytes)).to.deep.equal(aLabel(digit));
    }
    expect(decodeLabel(bytes)).to.include({ counter: 4 });
  });

  it("is none where the bytes are a tenant's, or too few", () => {
    expect(seen(Buffer.alloc(LABEL_BYTES, 0xa5))).to.equal("none");
    expect(seen(Buffer.from("diskmesh"))).to.equal("none");
    expect(seen(Buffer.alloc(0))).to.equal("none");
  });

  it("is damaged when a whole block says what no registry writes", () => {
    for (const wrong of [
      { deviceId: "dev\u0007" as DeviceId },
      { labelId: "" },
      { fleetId: "" },
      { sizeBytes: -1 },
      { offsetBytes: "1" as unknown as number },
    ]) {
      bytes = Buffer.alloc(LABEL_BYTES);
      write(bytes, { ...aLabel("a"), ...wrong });
      expect(seen(bytes), JSON.stringify(wrong)).to.equal("damaged");
    }
  });

  describe("that another program has overwritten", () => {
    const device = { ...aLabel("a"), path: "/dev/sdq", sizeBytes: 64 * MIB };
    const texts: readonly [offsetBytes: number, sign: string | number[], what: string][] = [
      [0, "", "zeros"],
      [100, "abc", "bytes of an unknown kind"],
      [0, "diskmesh-label-1", "a damaged label"],
      [1_080, [0x53, 0xef], "an ext2, ext3 or ext4 file system"],
      [0, "XFSB", "an XFS file system"],
      [512, "LABELONE", "an LVM volume"],
      [512, "EFI PART", "a GPT partition table"],
      [510, [0x55, 0xaa], "an MBR partition table or boot sector"],
      [4_086, "SWAPSPACE2", "swap space"],
    ];
    for (const [offsetBytes, sign, what] of texts)
      it(`${what} at byte ${offsetBytes} -> lost, with place and sizes`, () => {
        Buffer.from(sign as string).copy(bytes, offsetBytes);
        const why = whyOtherLabel(device, bytes);
        expect(why).to.include(`device dev-a has lost its label: ${what} in its place`);
        expect(why).to.include('the first 64 KiB of "/dev/sdq" (64 MiB)');
        expect(whyOtherLabel({ ...device, labelId: undefined }, bytes)).to.equal(undefined);
      });

    it("is another one, or the same", () => {
      write(bytes, aLabel("b"));
      expect(whyOtherLabel(device, bytes)).to.match(
        /carries another label than it did: that of device dev-a, with id b+/,
      );
      expect(whyOtherLabel({ ...device, labelId: aLabel("b").labelId }, bytes)).to.equal(undefined);
    });
  });
});
