import { expect } from "chai";
import { fileDifference, isKnownSame } from "./file-identity.js";

const marks = (serialNumber: string, fileIdentity?: string) => ({ serialNumber, fileIdentity });

type Marks = ReturnType<typeof marks>;

const rows: [string, Marks, Marks, RegExp | "known same" | "unknown"][] = [
  ["the same", marks("s1", "boot file 1"), marks("s1", "boot file 1"), "known same"],
  ["the same file, without a serial number", marks("", "boot file 1"), marks("", "boot file 1"), "known same"],
  ["another serial number", marks("s1"), marks("t1"), /serial number was "s1", is "t1"/],
  ["the same drive, plugged in again", marks("s1", "boot block 1"), marks("s1", "boot block 2"), "known same"],
  ["another drive, with the number of the former", marks("s1", "b 1"), marks("t1", "b 1"), /is "t1"/],
  [
    "another file in one boot of the machine",
    marks("", "boot file 1"),
    marks("", "boot file 2"),
    /it was "boot file 1"/,
  ],
  ["file identities of two boots of the machine", marks("", "one file 1"), marks("", "two file 2"), "unknown"],
  ["one side has no serial number -> the file decides", marks("s1", "b f 1"), marks("", "b f 2"), /"b f 2"/],
  ["one side has no serial number, the same file", marks("s1", "b f 1"), marks("", "b f 1"), "known same"],
  ["one side without a file identity", marks(""), marks("", "b f 2"), "unknown"],
  ["no marks on either side", marks(""), marks(""), "unknown"],
  ["a file after a boot", marks("", "one file 8:77:5"), marks("", "two file 9:77:5"), "known same"],
  ["another file after a boot", marks("", "one file 8:77:5"), marks("", "two file 8:78:5"), /"two file 8:78:5"/],
  ["its inode used again after a boot", marks("", "one file 8:77:5"), marks("", "two file 8:77:6"), /8:77:6/],
  ["a copy of its file system in one boot", marks("", "one file 8:77:5"), marks("", "one file 9:77:5"), /9:77:5/],
  ["no birth time, after a boot", marks("", "one file 8:77:0"), marks("", "two file 8:77:0"), "unknown"],
  [
    "a file in the place of a drive after a boot",
    marks("", "one block 8:16:3"),
    marks("", "two file 8:77:5"),
    /8:77:5/,
  ],
  [
    "QEMU's number of a place after a boot",
    marks("QM00001", "one block 8:0:1"),
    marks("QM00001", "two block 8:0:1"),
    "unknown",
  ],
  [
    "a placeholder on another drive in one boot",
    marks("0000", "one block 8:0:1"),
    marks("0000", "one block 8:0:2"),
    /8:0:2/,
  ],
  [
    "a serial number in the place of a placeholder",
    marks("QM00001", "one block 8:0:1"),
    marks("s1", "one block 8:0:2"),
    /8:0:2/,
  ],
  ["a drive after a boot", marks("", "one block 8:16:3"), marks("", "two block 8:16:3"), "unknown"],
];

describe("file identity", () => {
  for (const [cause, known, found, effect] of rows)
    it(`${cause} -> ${effect instanceof RegExp ? "different" : effect}`, () => {
      const difference = fileDifference(known, found);
      if (effect instanceof RegExp) expect(difference).to.match(effect);
      else expect(difference).to.equal(undefined);
      expect(isKnownSame(known, found)).to.equal(effect === "known same");
    });
});
