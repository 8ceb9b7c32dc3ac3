import { expect } from "chai";
import fc from "fast-check";
import { InvalidArgumentError } from "./errors.js";
import { MAX_ENVELOPE_DEPTH, MAX_JSON_DEPTH, parseJson, problemAsJson } from "./json.js";

const nested = (depth: number, inner = ""): string =>
  `${'[{"a":'.repeat(depth / 2)}[${inner}]${"}]".repeat(depth / 2)}`;

describe("external JSON", () => {
  for (const text of [
    '{"a": [1, "b", null]}',
    `"${"[".repeat(1_000)}"`,
    `["\\"${"{".repeat(1_000)}\\\\", "${"[".repeat(100)}"]`,
    `[${"[],".repeat(1_000)}{}]`,
    nested(MAX_ENVELOPE_DEPTH - 2),
  ])
    it(`${text.slice(0, 20)}... is parsed`, () => {
      expect(parseJson("the text", text)).to.deep.equal(JSON.parse(text));
    });

  for (const [text, effect] of [
    [nested(MAX_ENVELOPE_DEPTH), /^the text is nested more than 40 deep$/],
    ["[".repeat(10_000_000), /nested more than 40 deep/],
    [`"\\\\"${nested(MAX_ENVELOPE_DEPTH)}`, /nested more than 40 deep/],
    ["", /^the text of 0 characters is not JSON$/],
    ['{"hush": "hush"', /^(?!.*hush).*not JSON/],
    ["]".repeat(1_000), /not JSON/],
  ] as const)
    it(`${text.slice(0, 20)}... is refused and not quoted`, () => {
      expect(() => parseJson("the text", text)).to.throw(InvalidArgumentError, effect);
    });

  it("any text is parsed as JSON.parse does when it is not too deep, and refused otherwise", () => {
    const tokens = fc.array(fc.constantFrom(..."[]{}:,1", '"', "\\", '"a"', "null"), { maxLength: 12 });
    const text = fc.oneof(
      fc.json({ maxDepth: 4 }),
      fc.json({ maxDepth: 2 }).map((json) => JSON.stringify([`"${json}`, json])),
      tokens.map((parts) => parts.join("")),
      fc.string({ unit: "binary" }),
    );
    fc.assert(
      fc.property(text, fc.nat(4), (json, maxDepth) => {
        let expected: unknown;
        try {
          expected = JSON.parse(json);
        } catch {
          expect(() => parseJson("it", json)).to.throw(InvalidArgumentError);
          return;
        }
        if (depthOf(expected) <= maxDepth) expect(parseJson("it", json, maxDepth)).to.deep.equal(expected);
        else expect(() => parseJson("it", json, maxDepth)).to.throw(InvalidArgumentError, /nested more than/);
      }),
      { numRuns: 200 },
    );
  });
});

function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

describe("problemAsJson", () => {
  const deep = (depth: number): unknown => JSON.parse(`${"[".repeat(depth)}${"]".repeat(depth)}`);
  class Shelf {
    readonly slots = 24;
    readonly model = undefined;
  }
  for (const value of [
    null,
    "\u{1f600}",
    "",
    0,
    0.1,
    [],
    {},
    new Shelf(),
    new Date(0),
    process.env,
    deep(MAX_JSON_DEPTH),
  ])
    it(`${JSON.stringify(value).slice(0, 20)} has no problem`, () => {
      expect(problemAsJson(value)).to.equal(undefined);
    });

  for (const [value, problem] of [
    [Number.NaN, "it is NaN"],
    [{ a: { b: [2 ** 53] } }, "a.b.0 is an integer of 2^53 or more"],
    [[undefined], "0 is of type undefined"],
    [{ a: new Map() }, "a is of type Map"],
    [new Error("x"), "it is of type Error"],
    [{ a: ["\ud800x"] }, "a.0 contains a surrogate without its pair"],
    [{ a: { "x\udc00": 1 } }, "a property of a contains a surrogate without its pair"],
    [{ a: JSON.parse('{"__proto__": 1}') }, "a has a property __proto__"],
    [{ a: { toJSON: () => Number.NaN } }, "a is NaN"],
    [deep(MAX_JSON_DEPTH + 2), `is nested more than ${MAX_JSON_DEPTH} deep`],
  ] as const)
    it(`reports ${problem}`, () => {
      expect(problemAsJson(value)).to.contain(problem);
    });
});
