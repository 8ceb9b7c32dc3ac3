import { expect } from "chai";
import fc from "fast-check";
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

  const numbered = (count: number, name = "line") => Array.from({ length: count }, (_, index) => `${name} ${index}`);
  const changesOf = (from: readonly string[], to: readonly string[]) => {
    const lines = diffLines(from, to);
    expect(lines.filter(({ change }) => change !== "added").map(({ text }) => text)).to.deep.equal(from);
    expect(lines.filter(({ change }) => change !== "removed").map(({ text }) => text)).to.deep.equal(to);
    return lines.filter(({ change }) => change !== "none").length;
  };

  it("any two texts -> both are in the lines, in order", () => {
    const lines = fc.array(fc.constantFrom("a", "b", "c", ""), { maxLength: 20 });
    fc.assert(
      fc.property(lines, lines, (from, to) => void changesOf(from, to)),
      { numRuns: 200 },
    );
  });

  it("long texts with few changes -> only these", () => {
    const from = numbered(20_000);
    expect(changesOf(from, [...from.slice(0, 100), ...from.slice(101, 15_000), "new", ...from.slice(15_000)])).to.equal(
      2,
    );
    expect(
      changesOf(
        from,
        from.map((line, index) => (index % 20 === 1 ? "other" : line)),
      ),
    ).to.equal(2_000);
  });

  it("a short and a long text without common lines -> the fewest changes", () => {
    expect(changesOf([...numbered(80, "from"), "same", "a"], [...numbered(20_000, "to"), "same", "b"])).to.equal(
      20_082,
    );
  });

  it("texts too different for an exact diff -> the middle is replaced as a whole", () => {
    const [from, to] = [numbered(5_000, "from"), numbered(5_000, "to")];
    const lines = diffLines(["a", ...from, "same", ...from, "z"], ["a", ...to, "same", ...to, "z"]);
    expect(lines).to.have.lengthOf(20_004);
    expect(lines.filter(({ change }) => change === "none").map(({ text }) => text)).to.deep.equal(["a", "z"]);
  });
});
