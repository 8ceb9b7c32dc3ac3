import { expect } from "chai";
import { data } from "../http/page-answer.js";
import { RowCache } from "./row-cache.js";

describe("JSON of the page's rows", () => {
  const trouble = "cannot reach \u202egpj.exe";
  const shown = "cannot reach \\u202egpj.exe";

  it("a row with a bidirectional control character -> shown as an escape", () => {
    const rowCache = new RowCache();
    rowCache.set("source", "director", { state: "live", trouble });
    expect(JSON.parse(rowCache.textOf(["source director"]))).to.deep.equal([
      ["source", "director", { state: "live", trouble: shown }],
    ]);
  });

  it("an answer with such a character -> shown as an escape, too", () => {
    expect(JSON.parse(String(data({ trouble }).body))).to.deep.equal({ trouble: shown });
  });
});
