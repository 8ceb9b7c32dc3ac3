import { expect } from "chai";
import { BLOCK_BYTES, DiskContent } from "./disk-content.js";

describe("the expected content of a disk", () => {
  const other = Buffer.alloc(BLOCK_BYTES, "other");

  it("is zeros at first, and then the acknowledged writes only", () => {
    const content = new DiskContent("d", 2);
    expect(content.look(0, Buffer.alloc(BLOCK_BYTES))).to.equal(undefined);
    const written = content.begin(0);
    content.settle(0, written);
    expect(content.look(0, written)).to.equal(undefined);
    expect(content.look(0, Buffer.alloc(BLOCK_BYTES)), "lost").to.match(/holds zeros, not "d block 0 write 1"/);
    expect(content.look(1, other), "somebody else's").to.match(/block 1 of d holds .*not zeros/);
  });

  it("is the former or the new content after an unacknowledged write, and stays as first read", () => {
    const content = new DiskContent("d", 1);
    const first = content.begin(0);
    content.settle(0, first);
    const second = content.begin(0);
    expect(content.look(0, first)).to.equal(undefined);
    expect(content.look(0, second), "it came late").to.match(/write 2", not "d block 0 write 1"/);
    const torn = Buffer.concat([second.subarray(0, 100), first.subarray(100)]);
    expect(content.look(0, torn)).to.match(/and other things/);
  });
});
