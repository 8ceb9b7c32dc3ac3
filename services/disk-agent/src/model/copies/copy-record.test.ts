import type { CopyRecord, DiskId } from "@diskmesh/domain";
import { expect } from "chai";
import { latestRecord, type RecordSlots, slotToWrite } from "./copy-record.js";

const record = (layout: number): CopyRecord => ({
  diskId: "x" as DiskId,
  part: 0,
  layout,
  session: 1,
  counting: [],
  remembered: [],
  copying: [],
  own: "COUNTS",
});

/** Writes the next record; `torn` leaves no checksum that is right. */
function write(slots: RecordSlots, layout: number, torn = false): RecordSlots {
  const { index, written } = slotToWrite(slots);
  const slot = torn ? undefined : { written, record: record(layout) };
  return index === 0 ? [slot, slots[1]] : [slots[0], slot];
}

describe("records of copies", () => {
  it("the latest record is read, and a torn write leaves the one before", () => {
    let slots: RecordSlots = [undefined, undefined];
    expect(latestRecord(slots)).to.equal(undefined);
    for (let layout = 1; layout <= 5; layout++) {
      expect(latestRecord(write(slots, layout, true))?.layout).to.equal(layout === 1 ? undefined : layout - 1);
      slots = write(slots, layout);
      expect(latestRecord(slots)?.layout).to.equal(layout);
    }
  });

  it("a torn slot is written next", () => {
    const slots = write(write(write([undefined, undefined], 1), 2), 3, true);
    expect(latestRecord(write(slots, 4))?.layout).to.equal(4);
    expect(latestRecord(write(slots, 4, true))?.layout).to.equal(2);
  });
});
