import { ManualClock } from "@diskmesh/domain/testing";
import type { OverviewAnswer } from "@diskmesh/page/rows";
import { expect } from "chai";
import { Overview } from "./overview.js";
import { RowCache } from "./row-cache.js";

describe("the page's overview", () => {
  let reads: number;
  let rowCache: RowCache;
  let clock: ManualClock;
  const source = {
    read: async () => {
      reads++;
      rowCache.set("source", "director", { state: "live", sinceMs: reads });
    },
  };
  const opened = (...sources: ConstructorParameters<typeof Overview>[0]) => new Overview(sources, rowCache, clock);

  beforeEach(() => {
    [reads, rowCache, clock] = [0, new RowCache(), new ManualClock()];
  });

  it("20 browsers -> one read of a source in a second, before the first answer; none while nobody asks", async () => {
    const overview = opened(source);
    const answers = await Promise.all(Array.from({ length: 20 }, () => overview.changedSince("")));
    for (const answer of answers) expect((JSON.parse(answer) as OverviewAnswer).rows).to.have.length(1);
    await overview.changedSince("");
    expect(reads).to.equal(1);
    await clock.advance(60_000);
    expect(reads).to.equal(1);
    await overview.changedSince("");
    expect(reads).to.equal(2);
  });

  it("a source that hangs -> the rows of the others, and it is not read again meanwhile", async () => {
    let hung = 0;
    const hangs = { read: () => new Promise<void>(() => hung++) };
    const overview = opened(hangs, source);
    for (const _ of [1, 2]) {
      const answer = overview.changedSince("");
      await clock.advance(1_000);
      expect((JSON.parse(await answer) as OverviewAnswer).rows).to.have.length(1);
    }
    expect([hung, reads]).to.deep.equal([1, 2]);
  });

  it("all rows -> read anew, and without a source that hangs", async () => {
    const overview = opened(source);
    await overview.changedSince("");
    const [row] = [...(await overview.rows())];
    expect([reads, row]).to.deep.equal([2, ["source", "director", { state: "live", sinceMs: 2 }]]);
    const some = opened({ read: () => new Promise<void>(() => {}) }).rows();
    await clock.advance(10_000);
    expect([...(await some)]).to.have.length(1);
  });

  it("is closed -> the reads under way end, and no other begins", async () => {
    const begun: AbortSignal[] = [];
    const waits = {
      read: (signal: AbortSignal) => {
        begun.push(signal);
        return clock.sleep(60_000, signal);
      },
    };
    const overview = opened(waits);
    const answer = overview.changedSince("");
    overview.close();
    await answer;
    await clock.advance(10_000);
    await overview.changedSince("");
    expect(begun.map(({ aborted }) => aborted)).to.deep.equal([true]);
  });
});
