import { expect } from "chai";
import { leftMs, progressAfter, progressText, type StepProgress } from "./step-progress.js";
import { decodeEvent, encodeEvent, type TaskEvent } from "./task-event.js";

const event = (timeMs: number, percent: number, message = ""): TaskEvent => ({
  ...{ timeMs, stage: "Calling vendor method", tags: [], total: 0, task: "shelf.flash on node host-1", index: 1 },
  ...{ state: "in_progress", percent, message },
});

const after = (...events: readonly TaskEvent[]): StepProgress => {
  const [first, ...rest] = events.map((each) => (before?: StepProgress) => progressAfter(before, each));
  return rest.reduce<StepProgress | undefined>((before, next) => next(before), first?.()) as StepProgress;
};

describe("the progress of a task's step", () => {
  it("is in BOSH's events with its percent, and comes back from them", () => {
    const line = encodeEvent(event(2_000, 42, "writes bank 2"));
    expect(JSON.parse(line)).to.deep.include({ state: "in_progress", progress: 42, data: { status: "writes bank 2" } });
    expect(decodeEvent(line)).to.deep.equal(event(2_000, 42, "writes bank 2"));
  });

  it("gives the time that is left, at the rate since the first progress", () => {
    const seen = after(event(10_000, 10), event(20_000, 20), event(30_000, 30, "bank 3"));
    expect(leftMs(seen, 30_000)).to.equal(70_000);
    expect(leftMs(seen, 40_000)).to.equal(60_000);
    expect(leftMs(seen, 200_000)).to.equal(0);
    expect(progressText(seen)).to.equal("30 %: bank 3");
  });

  it("gives no time while one percent is known, or the percent falls", () => {
    expect(leftMs(after(event(10_000, 10)), 30_000)).to.equal(undefined);
    expect(leftMs(after(event(10_000, 10), event(20_000, 5)), 30_000)).to.equal(undefined);
    expect(progressText(after(event(10_000, 10)))).to.equal("10 %");
  });

  it("ends with the step", () => {
    const before = after(event(10_000, 10));
    expect(progressAfter(before, { ...event(11_000, 0), state: "finished" })).to.equal(undefined);
  });
});
