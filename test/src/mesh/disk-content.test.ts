import type { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { expect } from "chai";
import { BLOCK_BYTES, DiskContent } from "./disk-content.js";

describe("the expected content of a disk", () => {
  const other = Buffer.alloc(BLOCK_BYTES, "other");

  it("is zeros at first, and then the acknowledged writes only", () => {
    const content = new DiskContent("d");
    expect(content.look(0, Buffer.alloc(BLOCK_BYTES))).to.equal(undefined);
    const written = content.begin(0);
    content.settle(0, written);
    expect(content.look(0, written)).to.equal(undefined);
    expect(content.look(0, Buffer.alloc(BLOCK_BYTES)), "lost").to.match(/holds zeros, not "d block 0 write 1"/);
    expect(content.look(1, other), "somebody else's").to.match(/block 1 of d holds .*not zeros/);
  });

  it("is the former or the new content after an unacknowledged write, and stays as first read", () => {
    const content = new DiskContent("d");
    const first = content.begin(0);
    content.settle(0, first);
    const second = content.begin(0);
    expect(content.look(0, first)).to.equal(undefined);
    expect(content.look(0, second), "it came late").to.match(/write 2", not "d block 0 write 1"/);
    const torn = Buffer.concat([second.subarray(0, 100), first.subarray(100)]);
    expect(content.look(0, torn)).to.match(/and other things/);
  });

  it("allows what was erased or damaged to be otherwise, but not to be another disk's", async () => {
    const bytes = Buffer.alloc(3 * BLOCK_BYTES);
    const client = {
      sizeBytes: bytes.length,
      read: async (at: number, length: number) => bytes.subarray(at, at + length),
      write: async (at: number, data: Buffer) => void data.copy(bytes, at),
    } as unknown as NbdClient;
    const content = new DiskContent("d");
    await content.write(client, 1, { toEnd: true });
    expect(content.blocks).to.equal(2);
    bytes.fill(0, 2 * BLOCK_BYTES);
    expect((await content.faults(client)).join()).to.match(/^block 2 of d holds zeros/);
    content.mayBeErased();
    expect(await content.faults(client)).to.deep.equal([]);
    bytes.fill("noise", 0, BLOCK_BYTES);
    expect((await content.faults(client)).join()).to.match(/^block 0 of d holds "noise/);
    content.isDamaged = true;
    expect(await content.faults(client)).to.deep.equal([]);
    await new DiskContent("e").write(client, 0);
    expect((await content.faults(client)).join()).to.match(/^block 0 of d holds "e block 0 write 1"/);
  });
});
