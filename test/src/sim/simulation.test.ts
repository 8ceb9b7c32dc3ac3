import { type ExecFileException, execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { isQuickRun, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { MUTATIONS } from "./mutations.js";
import { runSeed } from "./run-seed.js";

const mainFile = fileURLToPath(new URL("./main.js", import.meta.url));

/** Seeds of `npm test`; `npm run sim` runs any others. */
const SEEDS = isQuickRun ? "1..24" : "1..132";
const STEPS = 200;
const MUTATION_STEPS = 300;

interface Ran {
  readonly code: number;
  readonly output: string;
}

function sim(...args: string[]): Promise<Ran> {
  return new Promise((resolve) => {
    const options = { maxBuffer: 64 * 1024 * 1024 };
    execFile(process.execPath, [mainFile, ...args], options, (error: ExecFileException | null, stdout, stderr) => {
      resolve({
        code: typeof error?.code === "number" ? error.code : error === null ? 0 : -1,
        output: stdout + stderr,
      });
    });
  });
}

describe("simulation", function () {
  this.timeout(600_000);

  it("the same seed gives the same trace, and another seed another one", async () => {
    const [first, again, other] = [await runSeed(7, STEPS), await runSeed(7, STEPS), await runSeed(8, STEPS)];
    expect(again.lines).to.deep.equal(first.lines);
    expect(again.hash).to.equal(first.hash);
    expect(other.hash).not.to.equal(first.hash);
  });

  it("another process gives the same trace", async () => {
    const { output, code } = await sim("--seed", "7", "--steps", String(STEPS), "--trace");
    expect(code).to.equal(0);
    expect(output).to.contain(`trace hash ${(await runSeed(7, STEPS)).hash}`);
  });

  it(`seeds ${SEEDS} of ${STEPS} steps break no promise, and all converge`, async () => {
    const { output, code } = await sim("--seeds", SEEDS, "--steps", String(STEPS));
    // The first line has the number of runs; the speed in later lines depends on the machine.
    console.log(`      ${output.trim().split("\n")[0]}`);
    expect(code, output.slice(0, 4_000)).to.equal(0);
    expect(output).to.contain("no violation");
    expect(output).to.match(
      /^[1-9]\d* parts were moved by copies between agents, [1-9]\d* in use, \d+ tries went on$/m,
    );
  });

  it("each mistake is found within the seeds that its entry states", async function () {
    leaveToVerify(this);
    const { output, code } = await sim("--mutate", "all", "--steps", String(MUTATION_STEPS));
    console.log(output.replace(/^/gm, "      ").trimEnd());
    expect(code, output).to.equal(0);
    const found = output.match(/^[\w-]+(?=: seed \d+ of at most \d+\b)/gm);
    const ofMesh = MUTATIONS.filter(({ simulation }) => simulation === undefined);
    expect(found).to.deep.equal(ofMesh.map(({ name }) => name));
  });

  it("a mutation that no seed reaches is reported", async () => {
    const { output, code } = await sim("--mutate", "two-links-of-a-session", "--seeds", "1..1");
    expect(code).to.equal(0);
    expect(output).to.contain("nothing ever came to DeviceAccess of disk-agent/remote/device-access");
  });

  it("a failing seed prints the reason, then the events that led to it", async function () {
    leaveToVerify(this);
    const mistake = ["--mutate", "refuse-equal-after-failure"];
    const [, seed = ""] = /^VIOLATION in seed (\d+) /.exec((await sim(...mistake, "--seeds", "1..100")).output) ?? [];
    const { output, code } = await sim(...mistake, "--seed", seed);
    expect(code).to.equal(1);
    const [reason = "", , shortest = "", ...history] = output.trim().split("\n");
    expect(reason).to.match(new RegExp(`^VIOLATION in seed ${seed} of 300 steps: \\S`));
    const steps = /^its shortest run that fails has (\d+) steps/.exec(shortest)?.[1];
    expect(Number(steps)).to.be.lessThan(300);
    expect(history.length).to.be.lessThan(70);
    expect(history.at(-1)).to.equal(
      `all of them: npm run sim -- --seed ${seed} --steps ${steps} --mutate refuse-equal-after-failure --trace`,
    );
    expect(history.at(-2)).to.contain("VIOLATION: ");
  });

  for (const [why, ...args] of [
    ["an unknown mutation", "--mutate", "nothing"],
    ["seeds in the wrong order", "--seeds", "9..1"],
    ["no number", "--steps", "many"],
  ] as const)
    it(`${why} -> exit code 2 and the usage`, async () => {
      const { output, code } = await sim(...args);
      expect(code).to.equal(2);
      expect(output).to.contain("usage: npm run sim");
    });
});
