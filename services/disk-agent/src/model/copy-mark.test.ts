import { expect } from "chai";
import { beginAt, noteChunk, noteFlushed, noteWritten, resumeToken, startOf, writtenBytes } from "./copy-mark.js";

const SIZE_BYTES = 100;
const place = {
  sessionNumber: 7,
  source: "a/0",
  target: "b/0",
  fileIdentity: "boot-1 file 1:2:3",
  deviceGeneration: 4,
};

describe("the progress of a copy", () => {
  it("is durable up to the first chunk that was not written when the flush began", () => {
    let mark = noteChunk(noteChunk(noteChunk(beginAt(10), 10), 10), 10);
    mark = noteWritten(noteWritten(mark, 10), 30);
    const belowBytes = writtenBytes(mark);
    expect(belowBytes).to.equal(20);
    mark = noteFlushed(noteWritten(mark, 20), belowBytes);
    expect(mark).to.include({ durableBytes: 20, nextBytes: 40 });
    expect(writtenBytes(mark)).to.equal(40);
    expect(noteFlushed(mark, 10).durableBytes).to.equal(20);
  });
});

describe("the token of a copy", () => {
  it("begins it where it was durable", () => {
    expect(startOf(resumeToken(place, 40), place, SIZE_BYTES)).to.equal(40);
    expect(resumeToken(place, 0)).to.equal("");
  });

  for (const [what, change] of Object.entries({
    session: { sessionNumber: 8 },
    source: { source: "a/4096" },
    target: { target: "c/0" },
    "boot of the machine": { fileIdentity: "boot-2 file 1:2:3" },
    "attach order": { deviceGeneration: 5 },
  }))
    it(`begins it at the first byte with another ${what}`, () => {
      expect(startOf(resumeToken(place, 40), { ...place, ...change }, SIZE_BYTES)).to.equal(0);
    });

  it("begins it at the first byte when it is no token, or one of a longer copy, or of a file that is not known", () => {
    const token = resumeToken(place, 40);
    for (const text of ["", "40", "40:", `-${token}`, `${token} `])
      expect(startOf(text, place, SIZE_BYTES), text).to.equal(0);
    expect(startOf(token, place, 39)).to.equal(0);
    const unknown = { ...place, fileIdentity: "" };
    expect(resumeToken(unknown, 40)).to.equal("");
    expect(startOf(token, unknown, SIZE_BYTES)).to.equal(0);
  });
});
