import { expect } from "chai";
import fc from "fast-check";
import { describeDriveError, isErrorOf, parseDriveError } from "./drive-errors.js";

const HEAD = "3,1189,73012345,-;";
const TAIL = "flags 0x800 phys_seg 1 prio class 2\n SUBSYSTEM=block\n DEVICE=b7:0\n";

/** Returns drive, kind, operation and offset. */
function parsed(record: string) {
  const found = parseDriveError(record);
  return found && [found.drive, found.kind, found.operation, found.offsetBytes];
}

describe("an error of a drive in the kernel's log", () => {
  for (const { name, text, expected } of [
    {
      name: "of a loop device",
      text: `I/O error, dev loop0, sector 16 op 0x1:(WRITE) ${TAIL}`,
      expected: ["loop0", "I/O", "WRITE", 8_192],
    },
    {
      name: "of a medium",
      text: `critical medium error, dev sda, sector 4660 op 0x0:(READ) ${TAIL}`,
      expected: ["sda", "critical medium", "READ", 2_385_920],
    },
    {
      name: "of a hidden path to an NVMe drive",
      text: `protection error, dev nvme0c1n2, sector 8 op 0x0:(READ) ${TAIL}`,
      expected: ["nvme0n2", "protection", "READ", 4_096],
    },
    {
      name: "of Linux 5.10",
      text: `blk_update_request: I/O error, dev vda, sector 8 op 0x0:(READ) ${TAIL}`,
      expected: ["vda", "I/O", "READ", 4_096],
    },
    {
      name: "without an operation",
      text: "print_req_error: I/O error, dev vda, sector 8",
      expected: ["vda", "I/O", "", 4_096],
    },
    {
      name: "of a flush",
      text: "I/O error, dev sdb, sector 0 op 0x1:(WRITE) flags 0x800 phys_seg 0 prio class 2",
      expected: ["sdb", "I/O", "WRITE", undefined],
    },
    {
      name: "of a flush on a kernel that calls it so",
      text: "I/O error, dev sdb, sector 18446744073709551615 op 0x2:(FLUSH) flags 0x0 phys_seg 0 prio class 2",
      expected: ["sdb", "I/O", "FLUSH", undefined],
    },
    {
      name: "that is no failure of the drive",
      text: `reservation conflict error, dev sda, sector 8 op 0x1:(WRITE) ${TAIL}`,
      expected: undefined,
    },
    {
      name: "of a discard",
      text: `critical target error, dev sda, sector 8 op 0x3:(DISCARD) ${TAIL}`,
      expected: undefined,
    },
    {
      name: "within another message",
      text: `EXT4-fs (dm-1): I/O error, dev sda, sector 8 op 0x1:(WRITE) ${TAIL}`,
      expected: undefined,
    },
    {
      name: "of a buffer",
      text: "Buffer I/O error on dev sda, logical block 1, async page read",
      expected: undefined,
    },
    {
      name: "of a name that is none",
      text: "I/O error, dev ../sda, sector 8 op 0x1:(WRITE)",
      expected: undefined,
    },
  ])
    it(`${name} gives ${JSON.stringify(expected) ?? "nothing"}`, () => {
      expect(parsed(`${HEAD}${text}`)).to.deep.equal(expected);
    });

  it("is not taken from a program that writes to the log", () => {
    const text = `1189,73012345,-;I/O error, dev sda, sector 8 op 0x1:(WRITE) ${TAIL}`;
    expect(parsed(`3,${text}`)).to.not.equal(undefined);
    expect(parsed(`11,${text}`)).to.equal(undefined);
  });

  it("is read from any text without an exception, and has a name that is safe in a log", () => {
    const text = fc.oneof(
      fc.string(),
      fc.string().map((name) => `${HEAD}I/O error, dev ${name}, sector 8`),
    );
    fc.assert(
      fc.property(text, (record) => {
        expect(parseDriveError(record)?.drive ?? "sda").to.match(/^[\w-]+$/);
      }),
    );
  });

  it("belongs to the bytes that have its sector, of a partition, too", () => {
    const error = { drive: "sda", kind: "I/O", operation: "READ", offsetBytes: 8_192 };
    const isOf = (startBytes: number, offsetBytes: number, name = "sda", at: number | undefined = 8_192) =>
      isErrorOf({ ...error, offsetBytes: at }, { name, startBytes }, { offsetBytes, sizeBytes: 4_096 });
    expect([isOf(0, 8_192), isOf(0, 4_096), isOf(0, 12_288)]).to.deep.equal([true, false, false]);
    expect([isOf(4_096, 4_096), isOf(4_096, 8_192)]).to.deep.equal([true, false]);
    expect(isOf(0, 8_192, "sdb")).to.equal(false);
  });

  it("of a flush belongs to all bytes of its drive", () => {
    const error = { drive: "sda", kind: "I/O", operation: "FLUSH", offsetBytes: undefined };
    const bytes = { offsetBytes: 8_192, sizeBytes: 4_096 };
    expect(isErrorOf(error, { name: "sda", startBytes: 0 }, bytes)).to.equal(true);
    expect(isErrorOf(error, { name: "sdb", startBytes: 0 }, bytes)).to.equal(false);
    expect(describeDriveError(error)).to.equal("the kernel has logged: I/O error of drive sda (FLUSH)");
  });

  it("is told with kind, drive, sector and operation", () => {
    const error = { drive: "sda", kind: "critical medium", operation: "READ", offsetBytes: 8_192 };
    expect(describeDriveError(error)).to.equal(
      "the kernel has logged: critical medium error of drive sda at sector 16 (READ)",
    );
  });
});
