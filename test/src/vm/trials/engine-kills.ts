import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { EngineScene } from "@diskmesh/disk-agent/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { CheckedWriter } from "./checked-writer.js";
import { Devices } from "./device-mapper.js";
import { makeDrives, unwind } from "./engine-drives.js";
import { DISK, formerLife, OTHER_DISK, SESSION, STEPS } from "./life.js";
import { count } from "./tally.js";

const DEPTH = 8;
/** Above the sessions of a life. */
const LATEST = 9;
/** Tests that share the calls of dmsetup among them. */
const TESTS = 30;
/** Kills of a test at random moments. `ROUNDS` repeats the test. */
const RANDOM_KILLS = 10;

/** The end of a life: before a call of dmsetup, or some time after its first step. Without both it does everything. */
interface End {
  readonly lastCall?: number;
  readonly afterMs?: number;
}

/** Runs a life up to its end. Resolves to its steps, to its time in ms since the first one, and to the writer of its disk. */
async function runLife(folder: string, { lastCall = 0, afterMs }: End) {
  const program = [...process.execArgv, process.argv[1] ?? "", "life", folder, `${lastCall}`];
  const life = spawn(process.execPath, program, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(life, "exit");
  let timer: NodeJS.Timeout | undefined;
  let beganMs = 0;
  const steps: string[] = [];
  let writer: CheckedWriter | undefined;
  for await (const line of createInterface({ input: life.stdout })) {
    const [step = "", path = ""] = line.split(" ");
    if (steps.length === 0) {
      beganMs = performance.now();
      if (afterMs !== undefined) timer = setTimeout(() => life.kill("SIGKILL"), afterMs);
    }
    steps.push(step);
    if (step === "published") writer = await CheckedWriter.start(path, DEPTH);
  }
  const [, signal] = await ended;
  clearTimeout(timer);
  expect(signal).to.equal("SIGKILL");
  return { steps, lifeMs: performance.now() - beganMs, writer };
}

/** Kills a life at its end, and checks its next one. Returns whether the life did everything, and its time in ms. */
async function killAt(end: End): Promise<{ readonly isWhole: boolean; readonly lifeMs: number }> {
  await using devices = new Devices();
  const { folder } = await makeDrives(devices);
  const { steps, lifeMs, writer } = await runLife(folder, end);
  const scene = new EngineScene("kernel", await formerLife(folder));
  devices.later(() => unwind(scene));
  await scene.start();
  const session = scene.fixture.ledger.memory.devices.get("a" as never)?.sessions?.[0];
  const isServed = session?.number === SESSION;
  if (writer !== undefined && isServed) {
    await writer.progress();
    expect(writer.errors, `errors after ${steps}`).to.deep.equal([]);
  }
  if (isServed) await scene.open(DISK, LATEST, ["a", "b"]);
  if (writer !== undefined) {
    await writer.ended();
    expect(new Set(writer.errors), `errors after ${steps}`).to.deep.equal(new Set(["EIO"]));
    expect(await writer.faults(join(folder, "a"))).to.deep.equal([]);
    await writer.stop();
  }
  await scene.exports.end(DISK, LATEST);
  await scene.open(OTHER_DISK, LATEST, ["c"]);
  await scene.exports.end(OTHER_DISK, LATEST);
  await eventually(async () => {
    const left = (await scene.mapper?.list())?.filter(({ role }) => role.kind !== "guard");
    expect(left, `left after ${steps}`).to.deep.equal([]);
  });
  count(`kills after ${steps.at(-1) ?? "nothing"}`);
  return { isWhole: steps.length === STEPS.length, lifeMs };
}

describe("a life of the kernel engine that is killed", () => {
  for (let first = 1; first <= TESTS; first++)
    it(`before call ${first} of dmsetup, or any ${TESTS}th later one, loses no write and leaves nothing`, async () => {
      for (let lastCall = first; !(await killAt({ lastCall })).isWhole; lastCall += TESTS);
    });

  it("at a random moment loses no write and leaves nothing", async () => {
    const { lifeMs } = await killAt({});
    for (let kills = 0; kills < RANDOM_KILLS; kills++) await killAt({ afterMs: Math.random() * lifeMs });
  });
});
