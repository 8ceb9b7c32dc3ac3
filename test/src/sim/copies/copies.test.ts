import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { leaveToVerify } from "@diskmesh/testkit";
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

  it("each mistake is found within the seeds that its entry states", async function () {
    leaveToVerify(this);
    const mainFile = fileURLToPath(new URL("../main.js", import.meta.url));
    // Rejects unless the exit code is 0, which it is when all are found.
    const { stdout } = await promisify(execFile)(process.execPath, [mainFile, "--copies", "--mutate", "all"]);
    expect(stdout).to.match(/^copies-no-choice: seed \d+ of at most 3000\b/m);
    expect(stdout).not.to.contain(": no of at most");
  });
});
