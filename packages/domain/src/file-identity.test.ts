import { expect } from "chai";
import { fileDifference } from "./file-identity.js";

const marks = (serialNumber: string, fileIdentity?: string) => ({ serialNumber, fileIdentity });

const rows: [string, ReturnType<typeof marks>, ReturnType<typeof marks>, RegExp | undefined][] = [
  ["the same", marks("s", "boot file 1"), marks("s", "boot file 1"), undefined],
  ["another serial number", marks("s"), marks("t"), /serial number was "s", is "t"/],
  ["the same drive, plugged in again", marks("s", "boot block 1"), marks("s", "boot block 2"), undefined],
  [
    "another file in one boot of the machine",
    marks("", "boot file 1"),
    marks("", "boot file 2"),
    /it was "boot file 1"/,
  ],
  ["file identities of two boots of the machine", marks("", "one file 1"), marks("", "two file 2"), undefined],
  ["one side has no serial number -> the file decides", marks("s", "b f 1"), marks("", "b f 2"), /"b f 2"/],
  ["an identity that nobody told", marks(""), marks("", "b f 2"), undefined],
];

describe("file identity", () => {
  for (const [cause, known, found, effect] of rows)
    it(`${cause} -> ${effect === undefined ? "no difference" : "different"}`, () => {
      const difference = fileDifference(known, found);
      if (effect === undefined) expect(difference).to.equal(undefined);
      else expect(difference).to.match(effect);
    });
});
