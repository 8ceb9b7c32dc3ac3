import { expect } from "chai";
import { ByteChecksums, checksumAt, checksumInAnyOrder, checksumOf, hexOf } from "./checksums.js";
import type { Place } from "./place.js";

const sumOf = (document: object) => checksumInAnyOrder("t", "k", { document, version: 1 });
/** Fields of the document in the order in which JSON.stringify writes an object that was filled in order of name. */
const sumInOrder = (document: object) => checksumOf("t", "k", 1, JSON.stringify(document));

describe("the checksum of a document in any order", () => {
  const ROWS: [string, object, object][] = [
    ["fields", { b: 1, a: "x" }, { a: "x", b: 1 }],
    ["fields within fields", { a: { d: [{ f: 1, e: true }], c: null } }, { a: { c: null, d: [{ e: true, f: 1 }] } }],
    ["no value", { b: undefined, a: 1.5 }, { a: 1.5 }],
    ["names that are whole numbers", { a: 1, "10": 2, "9": 3 }, { "9": 3, "10": 2, a: 1 }],
    ["names that JSON escapes", { 'b"': { d: 1, c: 2 }, a: 1 }, { a: 1, 'b"': { c: 2, d: 1 } }],
    ["text that JSON escapes", { b: 'x"\n\u2028', a: "ä" }, { a: "ä", b: 'x"\n\u2028' }],
  ];
  for (const [what, document, inOrder] of ROWS)
    it(`${what} -> that of the document in order of name, as stores have it`, () => {
      expect(sumOf(document)).to.equal(sumInOrder(inOrder));
    });

  it("a name that looks like two fields -> another sum", () => {
    expect(sumOf({ 'a":1,"b': 2 })).not.to.equal(sumOf({ a: 1, b: 2 }));
  });
});

describe("the checksum of stored bytes", () => {
  it("is that of their text, however long the key and the document are", () => {
    const checksums = new ByteChecksums("devices");
    for (const length of [0, 5_000, 3, 70_000, 1]) {
      const [key, json] = [`Zürich-${length}`, `{"text":"${"ä€x".repeat(length)}"}`];
      for (const version of [1, 12])
        expect(checksums.of(within(key), version, within(json))).to.equal(checksumOf("devices", key, version, json));
    }
  });

  it("is read from its digits, and from nothing else", () => {
    for (const checksum of [0n, 0xfedcba9876543210n, 0x00000000ffffffffn, 2n ** 63n])
      expect(checksumAt(within(hexOf(checksum)))).to.equal(checksum);
    for (const digits of ["", "0123456789abcde", "0123456789abcdeg", "0123456789abcdeF", "{123456789abcdef"])
      expect(checksumAt(within(digits))).to.equal(undefined);
  });

  function within(text: string): Place {
    const bytes = Buffer.from(`<<${text}>>`);
    return { bytes, at: 2, sizeBytes: bytes.length - 4 };
  }
});
