import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { EngineScene } from "@diskmesh/disk-agent/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { CheckedWriter } from "../checked-writer.js";
import { Devices } from "../device-mapper.js";
import { makeDrives, unwind } from "../engine-drives.js";
import { formerLife } from "../life.js";
import { count } from "../tally.js";
import { DISK } from "./orders.js";

/** Above the sessions of all lives. */
const LATEST = 1_000_000;
/** Moves that are to end in the whole of a test. */
const MOVES = 3;
/** Kills at random moments. `ROUNDS` repeats the test. */
const RANDOM_KILLS = 15;
/** Tests that share the calls of dmsetup among them. */
const TESTS = 5;
const BLOCKS = 32;
const REST_MS = 20;

interface End {
  /** Number of a call of dmsetup; 0 for none. */
  readonly lastCall?: number;
  readonly afterMs?: number;
  readonly afterMoves?: number;
}

/** Runs a life up to its end. Resolves to its lines, and to its time in ms. */
async function runLife(folder: string, { lastCall = 0, afterMs, afterMoves }: End, onLine = async (_: string) => {}) {
  const program = [...process.execArgv, process.argv[1] ?? "", "move", folder, `${lastCall}`];
  const life: ChildProcess = spawn(process.execPath, program, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(life, "exit");
  const beganMs = performance.now();
  const timer = afterMs === undefined ? undefined : setTimeout(() => life.kill("SIGKILL"), afterMs);
  const lines: string[] = [];
  if (life.stdout === null) throw new Error("no output");
  for await (const line of createInterface({ input: life.stdout })) {
    lines.push(line);
    await onLine(line);
    if (lines.filter((each) => each.startsWith("moved ")).length === afterMoves) life.kill("SIGKILL");
  }
  const [, signal] = await ended;
  clearTimeout(timer);
  expect(signal, `the end of a life that said ${lines}`).to.equal("SIGKILL");
  return { lines, lifeMs: performance.now() - beganMs };
}

/** Lives with these ends, one after another on the same drives, lose no write of a user of the disk. */
async function liveThrough(ends: (lifeMs: number) => Iterable<End>): Promise<void> {
  await using devices = new Devices();
  const { folder } = await makeDrives(devices);
  let writer: CheckedWriter | undefined;
  const { lifeMs } = await runLife(folder, { afterMoves: 1 }, async (line) => {
    const [what, path = ""] = line.split(" ");
    if (what === "served") writer = await CheckedWriter.start(path, BLOCKS, REST_MS);
  });
  if (writer === undefined) throw new Error("the disk was not served");
  let moves = 0;
  for (const end of ends(lifeMs)) {
    const { lines } = await runLife(folder, end);
    moves += lines.filter((line) => line.startsWith("moved ")).length;
    expect(writer.errors, `errors after ${lines}`).to.deep.equal([]);
    count(`kills of a move after ${lines.at(-1)?.split(" ")[0] ?? "nothing"}`);
  }
  await runLife(folder, { afterMoves: MOVES });
  await writer.progress();
  expect(writer.errors).to.deep.equal([]);
  const scene = new EngineScene("kernel", await formerLife(folder));
  devices.later(() => unwind(scene));
  await scene.start();
  await writer.progress();
  await writer.stop();
  const extent = scene.fixture.ledger.memory.exports.get(DISK)?.spec?.extents[0];
  expect(await writer.faults(join(folder, extent?.deviceId ?? ""))).to.deep.equal([]);
  count("moves with kills of the agent", moves + MOVES + 1);
  await scene.exports.end(DISK, LATEST);
  await scene.open(DISK, LATEST + 1, ["a", "b"]);
  await eventually(async () => {
    const left = (await scene.mapper?.list())?.filter(({ role }) => role.kind !== "guard");
    expect(left).to.deep.equal([]);
  });
}

describe("an agent that is killed while it moves a disk in use", () => {
  for (let first = 1; first <= TESTS; first++)
    it(`before call ${first} of dmsetup, or any ${TESTS}th later one, loses no write`, async () => {
      await liveThrough(function* () {
        for (let lastCall = first; lastCall <= 60; lastCall += TESTS) yield { lastCall };
      });
    });

  it("at random moments loses no write", async () => {
    await liveThrough(function* (lifeMs) {
      for (let kills = 0; kills < RANDOM_KILLS; kills++) yield { afterMs: Math.random() * lifeMs };
    });
  });
});
