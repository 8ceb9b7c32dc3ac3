import { expect } from "chai";
import { Standstill } from "./standstill.js";

const LIMIT_MS = 1_000;

describe("a standstill", () => {
  /** Returns the checks, a tenth of a second apart, at which a standstill is reported. */
  const toldAt = (looks: number, stepAt: (look: number) => number, keptMsAt: (look: number) => number) => {
    const standstill = new Standstill(LIMIT_MS);
    const told = Array.from({ length: looks }, (_, look) => standstill.look(stepAt(look), look * 100, keptMsAt(look)));
    return told.indexOf(true);
  };

  it("is reported for a step that takes longer than the limit", () => {
    expect(
      toldAt(
        30,
        () => 7,
        () => 0,
      ),
    ).to.equal(11);
  });

  it("is not reported while steps follow each other", () => {
    expect(
      toldAt(
        100,
        (look) => Math.floor(look / 9),
        () => 0,
      ),
    ).to.equal(-1);
  });

  it("does not count time in which the machine kept the step from running", () => {
    expect(
      toldAt(
        100,
        () => 7,
        (look) => look * 95,
      ),
    ).to.equal(-1);
    expect(
      toldAt(
        100,
        () => 7,
        (look) => look * 50,
      ),
    ).to.equal(21);
  });

  it("counts on when another process is waited for, which has not been kept from anything yet", () => {
    expect(
      toldAt(
        100,
        () => 7,
        (look) => (look < 5 ? look * 100 : 0),
      ),
    ).to.equal(15);
  });
});
