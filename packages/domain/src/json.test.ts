import { expect } from "chai";
import { InvalidArgumentError } from "./errors.js";
import { MAX_ENVELOPE_DEPTH, parseJson } from "./json.js";

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
});
