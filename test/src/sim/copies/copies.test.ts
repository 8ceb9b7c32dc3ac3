import { expect } from "chai";
import { runCopySeed } from "./run-seed.js";

/** Seeds of `npm test`; `npm run sim -- --copies` runs any others. */
const SEEDS = 70;
const STEPS = 200;

describe("simulation of disks with several copies", function () {
  this.timeout(600_000);

  it("the same seed gives the same trace, and another seed another one", () => {
    const [first, again, other] = [runCopySeed(5, STEPS), runCopySeed(5, STEPS), runCopySeed(6, STEPS)];
    expect(again.lines).to.deep.equal(first.lines);
    expect(again.hash).to.equal(first.hash);
    expect(other.hash).not.to.equal(first.hash);
  });

  it(`seeds 1..${SEEDS} of ${STEPS} steps break no promise, and all converge`, () => {
    const done: Record<string, number> = {};
    for (let seed = 1; seed <= SEEDS; seed++) {
      const { violation, done: counts } = runCopySeed(seed, STEPS, false);
      expect(violation, `seed ${seed}: npm run sim -- --copies --seed ${seed} --steps ${STEPS}`).to.equal(undefined);
      for (const [what, count] of Object.entries(counts)) done[what] = (done[what] ?? 0) + count;
    }
    for (const [what, count] of Object.entries(done)) expect(count, what).to.be.greaterThan(0);
  });
});
