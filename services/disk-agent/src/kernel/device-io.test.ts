import { expect } from "chai";
import { parseStat } from "./device-io.js";

describe("the kernel's counters of a block device", () => {
  it("are requests, sectors and milliseconds by operation", () => {
    const text =
      "     507        1    83914     6126      191       87    18094      938        0     2828     7371        4        0       64        2       51      307\n";
    expect(parseStat(text)).to.deep.equal({
      read: { operations: 507, sizeBytes: 83_914 * 512, timeMs: 6_126 },
      write: { operations: 191, sizeBytes: 18_094 * 512, timeMs: 938 },
      discard: { operations: 4, sizeBytes: 64 * 512, timeMs: 2 },
      flush: { operations: 51, sizeBytes: 0, timeMs: 307 },
    });
  });

  it("have no discards and flushes on an older kernel", () => {
    const { discard, flush } = parseStat("1 0 8 1 2 0 16 2 0 3 3");
    expect([discard.operations, flush.operations]).to.deep.equal([0, 0]);
  });
});
