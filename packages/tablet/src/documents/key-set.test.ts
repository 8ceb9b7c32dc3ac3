import { expect } from "chai";
import { orderedMapOf } from "./key-set.js";

describe("an ordered map made from a list", () => {
  const ascending = Array.from({ length: 1_000 }, (_, n) => `k${n}`.padStart(5, "0")).sort();
  const keyOf = (key: string) => key;

  for (const [order, keys] of Object.entries({
    "in order": ascending,
    "in reverse": ascending.toReversed(),
    // In UTF-8, U+E000 sorts before the encoding of U+1F600; in JavaScript's string comparison it sorts after.
    "in the order of UTF-8": ["a", "\u{e000}", "\u{1f600}"],
    "without values": [],
  }))
    it(`${order}: has every value in ascending order of key, and accepts more`, () => {
      const map = orderedMapOf([...keys], keyOf);
      expect([...map.keys()]).to.deep.equal([...keys].sort());
      for (const key of keys) expect(map.get(key)).to.equal(key);
      map.set("k", "k");
      expect([...map.keys()]).to.deep.equal([...keys, "k"].sort());
      map.checkValid();
    });

  it("refuses two values of one key", () => {
    expect(() => orderedMapOf(["b", "a", "b"], keyOf)).to.throw("strictly ascending");
  });
});
