import { expect } from "chai";
import { countIo, IoCounters } from "./io-counters.js";

describe("IoCounters", () => {
  it("counts by disk and operation, without the bytes of failed requests", () => {
    const sums = new IoCounters().ofDisk("a");
    countIo(sums, "read", { sizeBytes: 512, durationMs: 2, failed: false });
    countIo(sums, "read", { sizeBytes: 512, durationMs: 3, failed: true });
    expect(sums.read).to.deep.equal({ operations: 2, sizeBytes: 512, errors: 1, timeMs: 5 });
    expect(sums.write).to.include({ operations: 0 });
  });

  it("sums the reads and writes of all disks", () => {
    const counters = new IoCounters();
    countIo(counters.ofDisk("a"), "read", { sizeBytes: 512, durationMs: 2, failed: false });
    countIo(counters.ofDisk("b"), "write", { sizeBytes: 1_024, durationMs: 2, failed: false });
    countIo(counters.ofDisk("b"), "discard", { sizeBytes: 4_096, durationMs: 2, failed: false });
    expect(counters.totals()).to.deep.equal({ reads: 1, readBytes: 512, writes: 1, writtenBytes: 1_024 });
  });

  it("adds what a block device did since the last look, and nothing of the time before and after", () => {
    const counters = new IoCounters();
    let done = 100;
    const counted = (operations: number) => ({ operations, sizeBytes: operations * 512, timeMs: operations });
    const read = () => ({ read: counted(done), write: counted(2 * done), flush: counted(0), discard: counted(0) });
    const stop = counters.follow("a", read);
    done += 3;
    expect(counters.totals()).to.deep.equal({ reads: 3, readBytes: 1_536, writes: 6, writtenBytes: 3_072 });
    done += 1;
    stop();
    done += 50;
    stop();
    expect(counters.totals()).to.include({ reads: 4, writes: 8 });
    expect(counters.ofDisk("a").write).to.deep.equal({ operations: 8, sizeBytes: 4_096, errors: 0, timeMs: 8 });
  });

  it("names disks up to the maximum, and sums the rest", () => {
    const counters = new IoCounters();
    const named = Array.from({ length: 256 }, (_, index) => counters.ofDisk(`disk-${index}`));
    expect(new Set(named).size).to.equal(256);
    expect(counters.ofDisk("disk-300")).to.equal(counters.ofDisk("disk-301"));
    expect(counters.ofDisk("disk-300")).not.to.equal(named[255]);
    expect(counters.ofDisk("disk-0")).to.equal(named[0]);
  });
});
