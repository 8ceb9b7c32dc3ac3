import { expect } from "chai";
import { placeOf } from "../place.js";
import { TableRecords } from "./record.js";

describe("a record of a table in LMDB", () => {
  const records = new TableRecords("hosts");
  const key = Buffer.from("höst-1");

  it("gives back the document, its version and its checksum", () => {
    for (const document of [{}, { text: "Zürich € \u0000 \ud800" }, { nested: { list: [1, null, true] } }])
      for (const version of [1, 2, 999_999_999]) {
        const { bytes, checksum } = records.encode(key, { document, version });
        expect(records.decode(placeOf(key), placeOf(bytes))).to.deep.equal({ document, version, checksum });
      }
  });

  it("of the first release is JSON alone, wherever it has braces", () => {
    for (const document of [{ hostId: "h" }, { twelveLetter: { at: 16 } }]) {
      const { checksum } = records.encode(key, { document, version: 1 });
      const decoded = records.decode(placeOf(key), placeOf(Buffer.from(JSON.stringify(document))));
      expect(decoded).to.deep.equal({ document, version: 1, checksum });
    }
  });

  it("is refused when a bit of it was changed, or it stands under another key", () => {
    const { bytes } = records.encode(key, { document: { text: "x" }, version: 12 });
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes);
      changed[at] = (bytes[at] as number) ^ 1;
      expect(() => records.decode(placeOf(key), placeOf(changed)), `byte ${at}`).to.throw(/checksum|no document/);
    }
    expect(() => records.decode(placeOf(Buffer.from("host-2")), placeOf(bytes))).to.throw("its checksum");
    expect(() => records.decode(placeOf(key), placeOf(bytes.subarray(0, 3)))).to.throw("no document");
  });
});
