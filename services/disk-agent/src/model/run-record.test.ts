import { expect } from "chai";
import { decodeRecord, isOvertaken, RECORD_BYTES, recordWrite, type WrittenRecord } from "./run-record.js";

const MIB = 2 ** 20;

const aRecord = (change: Partial<WrittenRecord> = {}): WrittenRecord => ({
  ...{ diskId: "disk-1", sessionNumber: 7, layout: 2, clean: false },
  ...{ diskSizeBytes: 5 * MIB, blockSizeBytes: 4096, pool: "fast", partCount: 2 },
  parts: [{ index: 1, offsetBytes: 65_536, sizeBytes: 3 * MIB }],
  ...change,
});

describe("the record of a run", () => {
  let bytes: Buffer;
  const write = (record: WrittenRecord) => {
    const found = decodeRecord(bytes);
    const block = recordWrite(record, found);
    block.bytes.copy(bytes, block.offsetBytes);
  };
  beforeEach(() => {
    bytes = Buffer.alloc(RECORD_BYTES);
  });

  it("is read as it was written, from the slot that was written last", () => {
    expect(decodeRecord(bytes)).to.equal(undefined);
    for (const [index, record] of [aRecord(), aRecord({ clean: true }), aRecord({ parts: [] })].entries()) {
      write(record);
      expect(decodeRecord(bytes)).to.deep.equal({ record, counter: index + 1, slot: index % 2 });
    }
  });

  it("is the former one when a write is torn anywhere, or a byte of it is another one", () => {
    write(aRecord());
    const before = Buffer.from(bytes);
    const next = aRecord({ sessionNumber: 8 });
    write(next);
    const { offsetBytes, bytes: block } = recordWrite(next, decodeRecord(before));
    for (let torn = 0; torn <= block.length; torn += 512) {
      const seen = Buffer.from(before);
      block.copy(seen, offsetBytes, 0, torn);
      // The text ends within the first sector.
      expect(decodeRecord(seen)?.record, `${torn}`).to.deep.equal(torn === 0 ? aRecord() : next);
    }
    for (let at = 0; at < 200; at++) {
      const seen = Buffer.from(bytes);
      seen[offsetBytes + at] = (seen[offsetBytes + at] ?? 0) ^ 0x10;
      expect(decodeRecord(seen)?.record, `byte ${at}`).to.deep.equal(aRecord());
    }
  });

  it("has room for as many parts as a disk may have", () => {
    const parts = Array.from({ length: 256 }, (_, index) => ({
      index,
      offsetBytes: 2 ** 50 + index,
      sizeBytes: 2 ** 50,
    }));
    const record = aRecord({ diskId: "d".repeat(64), pool: "p".repeat(255), partCount: 256, parts });
    write(aRecord());
    write(record);
    expect(decodeRecord(bytes)?.record).to.deep.equal(record);
  });

  it("is none in bytes of other kinds, and in whole ones that say what no agent writes", () => {
    expect(decodeRecord(Buffer.alloc(RECORD_BYTES, 0xa5))).to.equal(undefined);
    expect(decodeRecord(Buffer.alloc(0))).to.equal(undefined);
    for (const wrong of [{ diskId: "a b" }, { sessionNumber: -1 }, { layout: 0.5 }, { parts: [{}] as never }]) {
      bytes = Buffer.alloc(RECORD_BYTES);
      write(aRecord(wrong));
      expect(decodeRecord(bytes), JSON.stringify(wrong)).to.equal(undefined);
    }
  });

  for (const [what, change, isOverwritten] of [
    ["of a later session", { sessionNumber: 8, layout: 0 }, true],
    ["of an earlier session", { sessionNumber: 6, layout: 9 }, false],
    ["of a later layout", { layout: 3 }, true],
    ["of an earlier layout", { layout: 1 }, false],
    ["of another disk", { diskId: "disk-2", sessionNumber: 1 }, true],
    ["that says something else", { clean: true }, true],
    ["that says the same", {}, false],
  ] as const)
    it(`is ${isOverwritten ? "" : "not "}replaced by one ${what}`, () => {
      expect(isOvertaken(aRecord(), aRecord(change))).to.equal(isOverwritten);
    });
});
