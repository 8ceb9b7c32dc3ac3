import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Drive, leaveToVerify, type ServiceProcess, skipBecause, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { Random } from "../random.js";
import type { EndedPass } from "./fio-user.js";
import { logged } from "./log-tail.js";
import { HOLDER, MovedDisk, type MovedDiskOptions } from "./moved-disk.js";

/** Moves of each disk: `ROUNDS=100 npm test -- test/src/moves/kills`. */
const ROUNDS = Number(process.env.ROUNDS ?? 1);
const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
/** Longer than most moves take, in ms. */
const WITHIN_MS = 1_500;
/** Longest time in ms for which no registry answers in the window. */
const WINDOW_MS = 2_500;
/** Time in ms for which a device fails. */
const FAILS_FOR_MS = { least: 100, most: 4_000 };
/** Time in ms within which the disk of a killed process is served again. */
const SERVED_AGAIN_MS = 30_000;
/** The holder logs this between its answer EQUAL and the registry's answer to it. */
const BOUND = /"phase":"bound"/;

const FAULTS = [
  "nothing",
  "the holder's agent",
  "the source's agent",
  "the target's agent",
  "the leading registry",
  "all registries",
] as const;
const TARGET_FAULTS = [
  "the target's agent",
  "the target fails",
  "the target hangs",
  "the target's agent hangs",
] as const;
type Fault = (typeof FAULTS)[number] | (typeof TARGET_FAULTS)[number];

interface Happened {
  readonly fault: Fault;
  readonly onHost: string;
  readonly fromMs: number;
  readonly untilMs: number;
}

interface Scene {
  /** Device that the disk leaves. */
  readonly left: string;
  readonly random: Random;
  /** True once the move has ended. */
  readonly isOver: () => boolean;
}

interface Affected {
  readonly onHost: string;
  readonly drive: Drive | undefined;
  /** Time in ms after which what hangs or fails works again. */
  readonly forMs: number;
  /** True for an agent that stops by SIGTERM. */
  readonly isStopped: boolean;
}

describe("fio on a disk that moves while processes are killed", function () {
  this.timeout(ROUNDS * 240_000 + 300_000);

  before(function () {
    leaveToVerify(this);
    skipWithout(this, "fio");
  });

  it("reads every acknowledged write of a disk of one device", () => use({ parts: 1, devices: [1, 2] }, FAULTS));

  it("reads every acknowledged write when the target fails in the window of the cut-over", function () {
    const problem = Drive.problem();
    if (problem !== undefined) skipBecause(this, problem);
    return use({ parts: 1, devices: [1, 1, 1], canFail: true }, TARGET_FAULTS);
  });
});

async function use(options: MovedDiskOptions, faults: readonly Fault[]): Promise<void> {
  const random = new Random(SEED);
  const happened: Happened[] = [];
  await using disk = await MovedDisk.start(options);
  const { user } = disk;
  await user.more();
  for (let round = 0; round < ROUNDS && user.isRight; round++) {
    // Each fault has its turn, also when there are few rounds.
    const fault = (round < faults.length ? faults[(round + SEED) % faults.length] : random.pick(faults)) as Fault;
    const left = random.pick(await disk.devices());
    let isOver = false;
    await disk.leave(left);
    const disturbed = disturb(disk, fault, { left, random, isOver: () => isOver });
    await disk.hasLeft(left);
    isOver = true;
    happened.push(await disturbed);
    if (options.canFail) await disk.mendAll();
    await disk.fill(left);
    if (ROUNDS > 1) console.log(`      round ${round + 1}: ${fault}`);
    await user.more();
  }
  await user.end();
  expect(user.lost, `acknowledged writes lost, seed ${SEED}`).to.deep.equal([]);
  expect(user.hangs, `hanging I/O, seed ${SEED}`).to.deep.equal([]);
  const unexplained = user.ended.filter((one) => causeOf(one, happened) === undefined);
  expect(unexplained, `failed I/O without a cause, seed ${SEED}`).to.deep.equal([]);
}

/** Lets the fault happen at any moment of the move, or in the window of the cut-over. */
async function disturb(disk: MovedDisk, fault: Fault, scene: Scene): Promise<Happened> {
  const { random, left, isOver } = scene;
  const { mesh } = disk;
  if (disk.options.canFail || random.chance(0.5)) {
    await logged(join(mesh.folder, `${HOLDER}.log`), BOUND, isOver);
    // Without a registry the window lasts.
    if (random.chance(0.5)) void standStill(mesh.all("disk-registry"), random.between(0, WINDOW_MS));
  } else await sleep(random.between(0, WITHIN_MS));
  const fromMs = performance.now();
  const target = disk.target ?? left;
  const onHost = fault.startsWith("the target")
    ? disk.hostOf(target)
    : fault.startsWith("the source")
      ? disk.hostOf(left)
      : HOLDER;
  await happen(disk, fault, {
    onHost,
    drive: disk.drives.get(target),
    forMs: random.between(FAILS_FOR_MS.least, FAILS_FOR_MS.most),
    isStopped: random.chance(0.3),
  });
  return { fault, onHost, fromMs, untilMs: performance.now() };
}

async function happen(disk: MovedDisk, fault: Fault, { onHost, drive, forMs, isStopped }: Affected): Promise<void> {
  const { mesh } = disk;
  switch (fault) {
    case "nothing":
      return;
    case "the leading registry":
    case "all registries": {
      const registries = mesh.all("disk-registry");
      const leading = fault === "all registries" ? registries : await mesh.leading("disk-registry");
      await Promise.all(leading.map((each) => each.kill()));
      await Promise.all(leading.map((each) => each.start("listening")));
      return;
    }
    case "the target fails":
      drive?.fail();
      await sleep(forMs);
      return drive?.mend();
    case "the target hangs":
      drive?.hang();
      await sleep(forMs);
      return drive?.resume();
    case "the target's agent hangs":
      return standStill([mesh.process(onHost)], forMs);
    default: {
      const agent = mesh.process(onHost);
      await (isStopped ? agent.stop() : agent.kill());
      await agent.start();
    }
  }
}

async function standStill(processes: readonly ServiceProcess[], forMs: number): Promise<void> {
  for (const each of processes) each.signal("SIGSTOP");
  await sleep(forMs);
  for (const each of processes) each.signal("SIGCONT");
}

/** Returns why I/O may have failed; undefined when it had to go on. */
function causeOf({ atMs }: EndedPass, happened: readonly Happened[]): string | undefined {
  const before = happened.filter((each) => each.fromMs <= atMs && each.untilMs > atMs - SERVED_AGAIN_MS);
  const kills = before.filter(({ fault, onHost }) => fault.endsWith("agent") && onHost === HOLDER);
  // The agent carries the bytes itself.
  if (kills.length > 0) return "the holder's agent was killed";
  if (before.some(({ fault }) => fault === "the target fails")) return "the device failed";
  return undefined;
}
