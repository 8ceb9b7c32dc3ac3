import { expect } from "chai";
import { ProgressFeed, pauseMs } from "./progress-feed.js";

describe("the progress of a call", () => {
  it("is published after a second, and more seldom the longer the call runs", () => {
    expect([0, 99_000, 200_000, 3_600_000].map(pauseMs)).to.deep.equal([1_000, 1_000, 2_000, 36_000]);
  });

  it("is the latest that was told, and one that does not differ is not published", async () => {
    const feed = new ProgressFeed();
    feed.tell({ percent: 1, text: "a" });
    feed.tell({ percent: 2, text: "b" });
    await feed.after(0);
    expect(feed.latest).to.deep.equal({ number: 1, percent: 2, text: "b" });
    feed.tell({ percent: 2, text: "b" });
    feed.tell({ percent: 3, text: "b" });
    await feed.after(1);
    expect(feed.latest).to.deep.equal({ number: 2, percent: 3, text: "b" });
    await feed.after(1);
    feed.close();
  });
});
