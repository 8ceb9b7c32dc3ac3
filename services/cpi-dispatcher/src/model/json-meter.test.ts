import { expect } from "chai";
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
});
