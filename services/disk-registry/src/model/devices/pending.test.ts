import { expect } from "chai";
import type { Pending } from "../store/schema.js";
import { pendingOf, pendingText } from "./pending.js";

const NOW_MS = 1_700_000_000_000;
const before: Pending = { message: "a write hangs", sinceMs: NOW_MS - 5_000, inFlightOperations: 1 };

describe("the cause of an agent's wait", () => {
  const answers: readonly [string, Parameters<typeof pendingOf>[0], Pending | "the same"][] = [
    ["the same, a second later", { message: "a write hangs", pendingMs: 5_900, inFlightOperations: 1 }, "the same"],
    [
      "another wait",
      { message: "a write hangs", pendingMs: 100, inFlightOperations: 1 },
      { ...before, sinceMs: NOW_MS - 100 },
    ],
    [
      "one operation more",
      { message: "a write hangs", pendingMs: 5_000, inFlightOperations: 2 },
      { ...before, inFlightOperations: 2 },
    ],
    [
      "an agent that knows no times",
      { message: "it is being opened" },
      { message: "it is being opened", sinceMs: NOW_MS, inFlightOperations: 0 },
    ],
    [
      "longer than there have been clocks",
      { message: "a write hangs", pendingMs: Number.MAX_SAFE_INTEGER, inFlightOperations: 1 },
      { ...before, sinceMs: 0 },
    ],
  ];
  for (const [cause, waiting, expected] of answers) {
    it(`${cause} -> ${expected === "the same" ? expected : `since ${NOW_MS - expected.sinceMs} ms before`}`, () => {
      const pending = pendingOf(waiting, before, NOW_MS);
      if (expected === "the same") expect(pending).to.equal(before);
      else expect(pending).to.deep.equal(expected);
    });
  }

  it("is shown in whole seconds, never negative", () => {
    expect(pendingText(before, NOW_MS)).to.equal("a write hangs, for 5 s");
    expect(pendingText(before, NOW_MS - 60_000)).to.equal("a write hangs, for 0 s");
  });
});
