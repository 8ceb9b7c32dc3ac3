import { expect } from "chai";
import { otherNames } from "./nearest.js";

describe("the end of a message about an unknown name", () => {
  const many = Array.from({ length: 12 }, (_, index) => `host-${index}`);
  const rows: readonly [names: readonly string[], wanted: string, said: string][] = [
    [[], "a", "there is none"],
    [["b"], "a", "there is b"],
    [["b", "c"], "a", "there are b, c"],
    [many, "hosts-11", "did you mean host-11?"],
    [many, "x", "there are 12 others"],
  ];
  for (const [names, wanted, said] of rows)
    it(`${wanted} of ${names.length} -> ${said}`, () => expect(otherNames(wanted, names)).to.equal(said));
});
