import type { EventEntry } from "@diskmesh/page/rows";
import { expect } from "chai";
import { newestOf } from "./events.js";

/** Lists events at these times, newest first, in pages of 100. */
function listOf(source: string, timesMs: readonly number[], beforeMs = Number.POSITIVE_INFINITY) {
  const entries = timesMs
    .map((timeMs, index): EventEntry => {
      return { id: `${source} ${index}`, timeMs, who: "", what: "", things: [], message: "", isFailure: false };
    })
    .filter(({ timeMs }) => timeMs < beforeMs);
  return async (pageToken: string) => {
    const next = Number(pageToken) + 100;
    return { entries: entries.slice(next - 100, next), nextPageToken: next < entries.length ? String(next) : "" };
  };
}

const timesOf = (entries: readonly EventEntry[]): number[] => entries.map(({ timeMs }) => timeMs);

describe("events of the director and its registries", () => {
  it("are listed newest first, and none is missed between two answers", async () => {
    const own = Array.from({ length: 250 }, (_, index) => 10_000 - 10 * index);
    // All events of one millisecond are in one answer, even more than a page has.
    const others = [...Array.from({ length: 150 }, () => 9_805), ...Array.from({ length: 150 }, (_, i) => 9_800 - i)];
    const all: number[] = [];
    let answers = 0;
    for (let beforeMs: number | undefined = 1e6; beforeMs !== undefined && answers < 10; answers++) {
      const answer = await newestOf([listOf("own", own, beforeMs), listOf("other", others, beforeMs)], false);
      all.push(...timesOf(answer.entries));
      ({ beforeMs } = answer);
    }
    expect(all).to.deep.equal([...own, ...others].sort((a, b) => b - a));
    expect(answers).to.be.within(3, 6);
  });

  it("found under two names -> each once; brief -> the first page of each list", async () => {
    const { entries } = await newestOf(
      [listOf("own", [500, 400]), listOf("own", [500, 400]), listOf("x", [450])],
      false,
    );
    expect(timesOf(entries)).to.deep.equal([500, 450, 400]);
    const many = Array.from({ length: 250 }, (_, index) => 1_000 - index);
    expect((await newestOf([listOf("own", many)], true)).entries).to.have.length(100);
  });

  it("a registry is away -> the events of the others, and what is missing", async () => {
    const away = () => Promise.reject(new Error("disk-registry: no connection"));
    const { entries, missing } = await newestOf([listOf("own", [500]), away, away], false);
    expect([timesOf(entries), missing]).to.deep.equal([[500], ["disk-registry: no connection"]]);
  });
});
