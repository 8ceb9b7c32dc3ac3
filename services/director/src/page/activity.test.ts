import type { ActivitySample } from "@diskmesh/page/rows";
import { expect } from "chai";
import { mergedSample } from "./activity.js";

describe("earlier samples of the page's charts", () => {
  const sample = (atMs: number, read: number | null, ended: number): ActivitySample => ({
    atMs,
    io: read === null ? null : { reads: read, readBytes: read * 10, writes: 0, writtenBytes: 0 },
    tasks: { running: ended, queued: 0, ended, failed: 1 },
  });

  it("are merged: rates and live tasks as means, ended tasks as sums, unknown I/O left out", () => {
    expect(mergedSample([sample(10, 4, 1), sample(20, null, 2), sample(30, 8, 3)])).to.deep.equal({
      atMs: 30,
      io: { reads: 6, readBytes: 60, writes: 0, writtenBytes: 0 },
      tasks: { running: 2, queued: 0, ended: 6, failed: 3 },
    });
  });

  it("without a known I/O -> unknown", () => {
    expect(mergedSample([sample(10, null, 1)]).io).to.equal(null);
  });
});
