import { expect } from "chai";
import { quoted } from "./identifiers.js";
import { visible, visibleInJson } from "./visible.js";

describe("displayed external text", () => {
  const ROWS: readonly (readonly [text: string, shown: string])[] = [
    ["disk \u202egpj.exe", "disk \\u202egpj.exe"],
    ["a\u2066b\u2069\u200b\u00ad\ufeff", "a\\u2066b\\u2069\\u200b\\u00ad\\ufeff"],
    ["\u{e0041}", "\\udb40\\udc41"],
    ["\u001b[2J\u009b\u007f\r\u0000", "\\u001b[2J\\u009b\\u007f\\u000d\\u0000"],
    ["a\u2028b\u2029", "a\\u2028b\\u2029"],
    ["Zürich \u{1f4be}\t€\n", "Zürich \u{1f4be}\t€\n"],
  ];
  for (const [text, shown] of ROWS)
    it(`${JSON.stringify(shown)} has no invisible character`, () => {
      expect(visible(text)).to.equal(shown);
      const json = JSON.stringify({ text });
      expect(JSON.parse(visible(json))).to.deep.equal({ text });
      expect(visible(JSON.parse(visibleInJson(json)).text)).to.equal(shown);
    });

  it("a quoted value has them escaped once", () => {
    expect(quoted("a\u202e\n")).to.equal('"a\\u202e\\n"');
  });
});
