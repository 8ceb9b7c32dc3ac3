import { expect } from "chai";
import { backoffMs, retryDelayMs } from "./backoff.js";
import { ResourceExhaustedError, TimeoutError, UnavailableError } from "./errors.js";

const LIMITS = { minDelayMs: 100, maxDelayMs: 5_000 };

describe("how long to wait before the next try", () => {
  it("a failure -> doubles from the minimum to the maximum, half of it random", () => {
    expect([0, 1, 2, 20].map((attempts) => backoffMs(attempts, LIMITS, 0))).to.deep.equal([50, 100, 200, 2_500]);
    expect([0, 1, 2, 20].map((attempts) => backoffMs(attempts, LIMITS, 1))).to.deep.equal([100, 200, 400, 5_000]);
    expect(retryDelayMs(new UnavailableError("away"), 1, LIMITS, 1)).to.equal(200);
    expect(retryDelayMs("anything", 1, LIMITS, 1)).to.equal(200);
  });

  it("refused as one of too many, or not served in time -> any time within the maximum, from the first try on", () => {
    for (const error of [new ResourceExhaustedError("full"), new TimeoutError("late")]) {
      expect([0, 0.5, 1].map((random) => retryDelayMs(error, 0, LIMITS, random))).to.deep.equal([0, 2_500, 5_000]);
    }
  });

  it("an error that says when -> not before that", () => {
    const full = new ResourceExhaustedError("full", { retryAfterMs: 200 });
    const away = new UnavailableError("away", { retryAfterMs: 700 });
    expect(retryDelayMs(full, 0, LIMITS, 0)).to.equal(200);
    expect(retryDelayMs(away, 0, LIMITS, 0)).to.equal(700);
  });
});
