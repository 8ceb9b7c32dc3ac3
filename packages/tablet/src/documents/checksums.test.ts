import { expect } from "chai";
import { checksumInAnyOrder, checksumOf } from "./checksums.js";

const sumOf = (document: object) => checksumInAnyOrder("t", "k", { document, version: 1 });
/** Returns the checksum of JSON.stringify's text. The test's documents have their fields sorted by name. */
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
    it(`is that of the document in order of name, as stored: ${what}`, () => {
      expect(sumOf(document)).to.equal(sumInOrder(inOrder));
    });

  it("differs for a name that looks like two fields", () => {
    expect(sumOf({ 'a":1,"b': 2 })).not.to.equal(sumOf({ a: 1, b: 2 }));
  });
});
