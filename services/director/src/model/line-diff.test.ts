import { expect } from "chai";
import { diffLines } from "./line-diff.js";

describe("differences of lines", () => {
  const ROWS: [string, string, string][] = [
    ["", "", ""],
    ["a b c", "a b c", " a  b  c"],
    ["", "a b", "+a +b"],
    ["a b", "", "-a -b"],
    ["a b c", "a x c", " a -b +x  c"],
    ["a b c d", "b d e", "-a  b -c  d +e"],
    ["a a a", "a a", " a  a -a"],
  ];
  const SIGNS = { none: " ", added: "+", removed: "-" };
  for (const [from, to, effect] of ROWS) {
    it(`"${from}" to "${to}" -> "${effect}"`, () => {
      const split = (text: string) => text.split(" ").filter((word) => word !== "");
      const lines = diffLines(split(from), split(to)).map(({ text, change }) => `${SIGNS[change]}${text}`);
      expect(lines.join(" ")).to.equal(effect);
    });
  }

  it("texts too different for an exact answer -> replaced as a whole, at once", () => {
    const from = Array.from({ length: 3_000 }, (_, index) => `a${index}`);
    const lines = diffLines(["same", ...from], ["same", ...from.map((line) => `b${line}`)]);
    expect(lines).to.have.lengthOf(6_001);
    expect(lines[0]?.change).to.equal("none");
  });
});
