import type { OverviewAnswer } from "@diskmesh/page/rows";
import { expect } from "chai";
import { data } from "../http/page-answer.js";
import { RowCache } from "./row-cache.js";

const asked = (rowCache: RowCache, since = "") => JSON.parse(rowCache.changedSince(since)) as OverviewAnswer;
const lock = (owner: string) => ({ owner, taskId: 0, waitingTaskIds: [] });

describe("changes of the page's rows", () => {
  it("all rows at first, then each changed row once in its latest state, then none", () => {
    const rowCache = new RowCache();
    rowCache.set("lock", "a", lock("one"));
    rowCache.set("lock", "b", lock("one"));
    const first = asked(rowCache);
    expect(first).to.deep.include({ isWhole: true, hasMore: false });
    expect(first.rows.map(([, name]) => name)).to.deep.equal(["a", "b"]);
    rowCache.set("lock", "b", lock("one"));
    expect(asked(rowCache, first.since)).to.deep.equal({ ...first, isWhole: false, rows: [] });
    rowCache.set("lock", "a", lock("two"));
    rowCache.setAll("lock", new Map([["a", lock("three")]]));
    const second = asked(rowCache, first.since);
    expect(second.rows).to.deep.equal([
      ["lock", "a", lock("three")],
      ["lock", "b", null],
    ]);
    expect(asked(rowCache, second.since).rows).to.deep.equal([]);
  });

  it("more rows than an answer has -> the rest in the next answers", () => {
    const rowCache = new RowCache();
    for (let index = 0; index < 4_500; index++) rowCache.set("lock", `${index}`, lock("one"));
    const names = new Set<string>();
    const sizes: number[] = [];
    for (let since = "", hasMore = true; hasMore; ) {
      const answer = asked(rowCache, since);
      ({ since, hasMore } = answer);
      sizes.push(answer.rows.length);
      for (const [, name] of answer.rows) names.add(name);
      expect(answer.isWhole).to.equal(sizes.length === 1);
    }
    expect(sizes).to.deep.equal([2_000, 2_000, 500]);
    expect(names).to.have.length(4_500);
  });

  it("the answer of another director, or none at all -> all rows", () => {
    const rowCache = new RowCache();
    rowCache.set("lock", "a", lock("one"));
    for (const since of [asked(new RowCache()).since, "", "x", "1 2 3"])
      expect(asked(rowCache, since), since).to.deep.include({ isWhole: true, rows: [["lock", "a", lock("one")]] });
  });

  it("more rows are gone than are remembered -> all present rows again", () => {
    const rowCache = new RowCache();
    rowCache.set("lock", "stays", lock("one"));
    const { since } = asked(rowCache);
    for (let index = 0; index < 10_001; index++) {
      rowCache.set("lock", `${index}`, lock("one"));
      rowCache.set("lock", `${index}`, undefined);
    }
    expect(asked(rowCache, since)).to.deep.include({ isWhole: true, rows: [["lock", "stays", lock("one")]] });
  });
});

describe("JSON of the page's rows", () => {
  const trouble = "cannot reach \u202egpj.exe";
  const shown = "cannot reach \\u202egpj.exe";

  it("a row with a bidirectional control character -> shown as an escape", () => {
    const rowCache = new RowCache();
    rowCache.set("source", "director", { state: "live", trouble });
    expect(asked(rowCache).rows).to.deep.equal([["source", "director", { state: "live", trouble: shown }]]);
  });

  it("an answer with such a character -> shown as an escape, too", () => {
    expect(JSON.parse(String(data({ trouble }).body))).to.deep.equal({ trouble: shown });
  });
});
