import { expect } from "chai";
import { backoffMs, retryDelayMs } from "./backoff.js";
import { ResourceExhaustedError, TimeoutError, UnavailableError } from "./errors.js";

const LIMITS = { minDelayMs: 100, maxDelayMs: 5_000 };

describe("the delay before a retry", () => {
  it("doubles from the minimum to the maximum after failures, half of it random", () => {
    expect([0, 1, 2, 20].map((attempts) => backoffMs(attempts, LIMITS, 0))).to.deep.equal([50, 100, 200, 2_500]);
    expect([0, 1, 2, 20].map((attempts) => backoffMs(attempts, LIMITS, 1))).to.deep.equal([100, 200, 400, 5_000]);
    expect(retryDelayMs(new UnavailableError("away"), 1, LIMITS, 1)).to.equal(200);
    expect(retryDelayMs("anything", 1, LIMITS, 1)).to.equal(200);
  });

  it("is any time within the maximum, from the first try on, after a refusal by a limit or a timeout", () => {
    for (const error of [new ResourceExhaustedError("full"), new TimeoutError("late")]) {
      expect([0, 0.5, 1].map((random) => retryDelayMs(error, 0, LIMITS, random))).to.deep.equal([0, 2_500, 5_000]);
    }
  });

  it("is never shorter than an error asks for", () => {
    const full = new ResourceExhaustedError("full", { retryAfterMs: 200 });
    const away = new UnavailableError("away", { retryAfterMs: 700 });
    expect(retryDelayMs(full, 0, LIMITS, 0)).to.equal(200);
    expect(retryDelayMs(away, 0, LIMITS, 0)).to.equal(700);
  });
});
