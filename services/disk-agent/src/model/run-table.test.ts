import { expect } from "chai";
import { decodeLabel, LABEL_BYTES, labelWrites } from "./label.js";
import {
  decodeTable,
  MAX_TABLE_ENTRIES,
  RUN_UNIT_BYTES,
  type RunTable,
  type TableEntry,
  tableWrite,
  withEntry,
  withoutErased,
} from "./run-table.js";

/** Runs that a registry gives a device at most. */
const MAX_RUNS_OF_DEVICE = 1_024;
const MIB = 16 * RUN_UNIT_BYTES;
const HALF = LABEL_BYTES / 2;

/** Stands for the digest of an id. */
const diskDigest = (id: string) => Buffer.from(id.padEnd(16, "-")).toString("hex").slice(-32);

const entry = (at: number, disk = `disk-${at}`, count = 1): TableEntry => ({
  offsetBytes: RUN_UNIT_BYTES + at * MIB,
  sizeBytes: count * MIB,
  disk: diskDigest(disk),
});

describe("the table of a device's runs", () => {
  let area: Buffer;
  const write = (entries: readonly TableEntry[], bytes = area): RunTable => {
    const table = decodeTable(bytes);
    const block = tableWrite(table, entries);
    block.bytes.copy(bytes, block.offsetBytes);
    return table;
  };
  beforeEach(() => {
    area = Buffer.alloc(LABEL_BYTES);
  });

  it("is read as it was written, from the slot that was written last", () => {
    expect(decodeTable(area)).to.deep.equal({ entries: [], counter: 0, slot: 1, isDamaged: false });
    write([entry(0)]);
    write([entry(0), entry(3, "disk-3", 7)]);
    expect(decodeTable(area)).to.deep.equal({
      entries: [entry(0), entry(3, "disk-3", 7)],
      counter: 2,
      slot: 1,
      isDamaged: false,
    });
    write([]);
    expect(decodeTable(area)).to.deep.include({ entries: [], counter: 3, slot: 0 });
  });

  it("has room beside the label for all runs of a device, with ids of any length", () => {
    const labelId = "a".repeat(32);
    const ids = { fleetId: "tablet-1", deviceId: "dev-a" as never, labelId };
    const label = { ...ids, sizeBytes: 4 * MIB, sliceBytes: MIB, offsetBytes: 0 };
    for (const block of labelWrites(label, decodeLabel(area))) block.bytes.copy(area, block.offsetBytes);
    const full = (round: number) =>
      Array.from({ length: MAX_TABLE_ENTRIES }, (_, at) => entry(at, `${round}-${at}`.padEnd(64, "x")));
    expect(MAX_TABLE_ENTRIES).to.be.at.least(MAX_RUNS_OF_DEVICE);
    for (const round of [1, 2, 3]) write(full(round));
    expect(decodeTable(area)).to.deep.include({ entries: full(3), counter: 3 });
    expect(decodeLabel(area)).to.deep.include({ label, state: "valid" });
    const beyond = tableWrite(decodeTable(area), full(4));
    expect(beyond.offsetBytes + beyond.bytes.length).to.be.at.most(LABEL_BYTES);
  });

  it("is the former one when the write of a longer or shorter one is torn anywhere", () => {
    const lists = [[entry(1)], Array.from({ length: 900 }, (_, at) => entry(at))];
    for (const [before, after] of [lists, [...lists].reverse()]) {
      area = Buffer.alloc(LABEL_BYTES);
      write(after ?? []);
      write(before ?? []);
      const block = tableWrite(decodeTable(area), after ?? []);
      for (let torn = 0; torn < block.bytes.length; torn += 512) {
        const bytes = Buffer.from(area);
        bytes.fill(0xee, block.offsetBytes, block.offsetBytes + block.bytes.length);
        block.bytes.copy(bytes, block.offsetBytes, 0, torn);
        const { entries, counter } = decodeTable(bytes);
        // Bytes behind the entries do not count.
        const isWhole = torn >= 32 + 24 * (after?.length ?? 0);
        expect([entries.length, counter], `${torn}`).to.deep.equal([
          (isWhole ? after : before)?.length,
          isWhole ? 3 : 2,
        ]);
      }
    }
  });

  it("is damaged when both slots are, and none where the bytes are a tenant's", () => {
    write([entry(0)]);
    write([entry(0), entry(1)]);
    for (const slot of [0, 1]) {
      const bytes = Buffer.from(area);
      bytes.writeUInt8(1, slot * HALF + 4_096 + 40);
      expect(decodeTable(bytes)).to.deep.include({ isDamaged: false, slot: 1 - slot });
      bytes.writeUInt8(1, (1 - slot) * HALF + 4_096 + 40);
      expect(decodeTable(bytes)).to.deep.include({ isDamaged: true, entries: [] });
    }
    expect(decodeTable(Buffer.alloc(LABEL_BYTES, 0xa5))).to.deep.include({ isDamaged: false, entries: [] });
    expect(decodeTable(Buffer.alloc(0))).to.deep.include({ isDamaged: false, entries: [] });
  });

  it("has one entry for each byte", () => {
    const entries = [entry(5, "b"), entry(1, "a")].reduce(withEntry, [] as readonly TableEntry[]);
    expect(entries).to.deep.equal([entry(1, "a"), entry(5, "b")]);
    expect(withEntry(entries, entry(0, "c", 2))).to.deep.equal([entry(0, "c", 2), entry(5, "b")]);
    expect(withoutErased(entries, entry(2, "c", 4))).to.deep.equal([entry(1, "a")]);
    expect(withoutErased(entries, { offsetBytes: 0, sizeBytes: 0 })).to.deep.equal([]);
    // A restored registry erases those bytes of a grown disk that it does not know.
    expect(withoutErased([entry(1, "a", 4)], entry(3, "", 2))).to.deep.equal([entry(1, "a", 2)]);
    expect(withoutErased([entry(1, "a", 4)], entry(0, "", 2))).to.deep.equal([]);
  });
});
