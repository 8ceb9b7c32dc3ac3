import { expect } from "chai";
import fc from "fast-check";
import { JsonMeter } from "./json-meter.js";

describe("limits of an answer's JSON", () => {
  const LIMITS = { maxDepth: 3, maxValues: 5 };
  const cases: [what: string, text: string, tooMuch: "depth" | "values" | undefined][] = [
    ["as deep as may be", '[[{"a":1}]]', undefined],
    ["deeper", "[[[[]]]]", "depth"],
    ["lists beside each other", "[[],[]]", undefined],
    ["as many values as may be", "[1,2,3,4]", undefined],
    ["more values", "[1,2,3,4,5]", "values"],
    ["more values, all empty", '{"a":[],"b":{},"c":[]}', "values"],
    ["brackets in a text", '["[[[[,,,,,,{{{{"]', undefined],
    ["an escaped quote in a text", '["\\"[[[[,,,,,,"]', undefined],
    ["an escaped backslash at its end", '["\\\\",[[[]]]]', "depth"],
    ["closings without openings", "]]]]]]]]]", undefined],
    ["nothing", "", undefined],
  ];
  for (const [what, text, tooMuch] of cases)
    it(`${what} -> ${tooMuch ?? "within the limits"}, in one piece and byte by byte`, () => {
      const bytes = Buffer.from(text);
      expect(new JsonMeter(LIMITS).add(bytes)).to.equal(tooMuch);
      const meter = new JsonMeter(LIMITS);
      const found = [...bytes].map((byte) => meter.add(Uint8Array.of(byte))).find((one) => one !== undefined);
      expect(found).to.equal(tooMuch);
    });

  it("any JSON, cut anywhere -> measured as its parsed value", () => {
    const limits = { maxDepth: 2, maxValues: 8 };
    fc.assert(
      fc.property(fc.json({ maxDepth: 3 }), fc.nat(), (text, at) => {
        const bytes = Buffer.from(text);
        const meter = new JsonMeter(limits);
        const cut = at % (bytes.length + 1);
        const tooMuch = meter.add(bytes.subarray(0, cut)) ?? meter.add(bytes.subarray(cut));
        const { depth, values } = measured(JSON.parse(text));
        expect(tooMuch !== undefined).to.equal(depth > limits.maxDepth || values > limits.maxValues);
      }),
      { numRuns: 200 },
    );
  });
});

/** Returns the nesting and the number of values; an empty list counts as if it held one. */
function measured(value: unknown): { readonly depth: number; readonly values: number } {
  if (typeof value !== "object" || value === null) return { depth: 0, values: 1 };
  const inner = Object.values(value).map(measured);
  const extra = inner.length === 0 ? 1 : 0;
  return {
    depth: 1 + Math.max(0, ...inner.map(({ depth }) => depth)),
    values: 1 + extra + inner.reduce((sum, { values }) => sum + values, 0),
  };
}
