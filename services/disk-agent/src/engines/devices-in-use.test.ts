import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, realpathSync } from "node:fs";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { ExportKind } from "@diskmesh/api/registry";
import { InvalidStateError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, skipBecause, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { endLeftBlockDevices } from "../commands/end-sessions.js";
import { AgentScene, DEVICE_BYTES, DONE } from "../testing/agent-scene.js";
import { whyNoBlockDevices } from "./block-devices.js";

const run = promisify(execFile);
const FILES = 20;

/** A shell in a mount namespace of its own. */
class Shell {
  readonly #child: ChildProcess;
  #output = "";

  constructor() {
    this.#child = spawn("unshare", ["--mount", "sh"], { stdio: ["pipe", "pipe", "inherit"] });
    this.#child.stdout?.on("data", (data) => {
      this.#output += data;
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  async run(script: string): Promise<void> {
    this.#output = "";
    this.#child.stdin?.write(`${script}\necho "ended $?"\n`);
    const text = await eventually(() => {
      if (!this.#output.includes("ended ")) throw new Error("the shell works");
      return this.#output;
    });
    expect(text.trim()).to.equal("ended 0");
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await ended;
  }
}

describe("a block device that is in use", () => {
  const scene = AgentScene.forEachTest();
  let shell: Shell;

  before(async function () {
    skipWithout(this, "unshare", "mkfs.ext4");
    const whyNot = await whyNoBlockDevices();
    if (whyNot !== undefined) skipBecause(this, whyNot);
  });

  beforeEach(async () => {
    await scene.start();
    mkdirSync(scene.path("mounted"));
    shell = new Shell();
  });

  afterEach(async () => {
    await shell?.end();
    await scene.agent?.process.kill();
    if (scene.agent !== undefined) await endLeftBlockDevices(scene.agent.baseFolder);
  });

  const publish = async (session: number, after = 0): Promise<string> => {
    const extents = [{ deviceId: "dev-a", hostId: "host-1", sizeBytes: DEVICE_BYTES }];
    const { exportPath, outcomes } = await (await scene.orders(after)).exportAtOnce(
      "disk-1",
      session,
      extents,
      ExportKind.DEVICE,
    );
    expect(outcomes.map(({ outcome }) => outcome)).to.deep.equal([DONE]);
    return exportPath;
  };
  const drain = async (session: number, after = 0) =>
    (await scene.orders(after)).unexport("disk-1", session, { openDeviceIds: ["dev-a"], drain: true });
  const drained = (session: number, after = 0) =>
    eventually(async () => {
      const { outcomes } = await drain(session, after);
      expect(outcomes.map(({ outcome }) => outcome)).to.deep.equal([DONE]);
    });
  const folder = () => scene.path("mounted");
  const writeFiles = `for i in $(seq ${FILES}); do seq 100 > $M/$i; done`;
  const mountAndWrite = (device: string) => shell.run(`M=${folder()}; mount ${device} $M && ${writeFiles}`);
  const problems = () => scene.registry.heartbeats.at(-1)?.diskProblems ?? [];
  const restart = async () => {
    const { length } = scene.registry.registrations;
    await scene.agent.process.kill();
    await scene.agent.process.start();
    await scene.registry.registered("host-1", length);
    return length;
  };

  /** Publishes the disk again, and expects all that was written on it. */
  const expectFiles = async (session: number, after = 0) => {
    const device = await publish(session, after);
    await run("e2fsck", ["-fn", device]);
    await shell.run(`M=${folder()}; mount ${device} $M && for i in $(seq ${FILES}); do seq 100 | cmp - $M/$i; done`);
    await shell.run(`umount ${folder()}`);
  };

  it("is not drained while a mount of another namespace has it, which loses nothing", async () => {
    const device = await publish(1);
    await run("mkfs.ext4", ["-q", device]);
    const loop = readlinkSync(device);
    await mountAndWrite(device);
    const { message } = await rejection(drain(2), InvalidStateError, "still in use");
    expect(message).to.include(loop).and.to.include(`process ${shell.pid} ("sh")`).and.to.include(folder());
    // Nobody else opens it from now on.
    expect(existsSync(device)).to.equal(false);
    await shell.run(`${writeFiles} && umount $M`);
    await drained(2);
    expect(isOn(loop, scene.agent.baseFolder)).to.equal(false);
    await expectFiles(3);
  });

  it("is not drained while a process has it open, which loses nothing", async () => {
    const device = await publish(1);
    await shell.run(`exec 3<>${device}`);
    const { message } = await rejection(drain(2), InvalidStateError, "still in use");
    expect(message).to.include(`process ${shell.pid} ("sh")`);
    await shell.run("seq 1000 >&3; exec 3>&-");
    await drained(2);
    expect(readFileSync(scene.path("a"), "utf8")).to.include(execFileSync("seq", ["1000"], { encoding: "utf8" }));
  });

  it("is cut at once by an order that does not drain, and goes with its last user", async () => {
    const device = await publish(1);
    await run("mkfs.ext4", ["-q", device]);
    const loop = readlinkSync(device);
    await mountAndWrite(device);
    await rejection(drain(2), InvalidStateError, "still in use");
    const { outcomes } = await (await scene.orders()).unexport("disk-1", 2, { openDeviceIds: ["dev-a"] });
    expect(outcomes.map(({ outcome }) => outcome)).to.deep.equal([DONE]);
    await shell.run(`umount ${folder()}`);
    await eventually(() => expect(backingFileOf(loop)).not.to.equal("/"));
    expect(readdirSync(join(scene.agent.baseFolder, "exports"))).to.deep.equal([]);
  });

  it("is made anew when its nbdfuse dies, which is told until the dead device has no user", async () => {
    const device = await publish(1);
    await run("mkfs.ext4", ["-q", device]);
    const loop = readlinkSync(device);
    await mountAndWrite(device);
    expect(problems()).to.deep.equal([]);
    const pidFile = join(realpathSync(scene.agent.baseFolder), "exports", "session-1.img.pid");
    process.kill(Number(readFileSync(pidFile, "utf8")), "SIGKILL");
    const told = () =>
      eventually(() => {
        const [problem] = problems();
        expect(problem?.message).to.include(loop).and.to.include(`process ${shell.pid} ("sh")`);
        return problem;
      });
    expect(await told()).to.deep.include({ diskId: "disk-1", sessionNumber: 1 });
    // The disk can be mounted anew.
    await run("e2fsck", ["-fp", device]).catch(({ code }) => expect(code).to.equal(1));
    expect(readlinkSync(device)).not.to.equal(loop);
    await restart();
    await told();
    await shell.run(`umount ${folder()}`);
    await eventually(() => expect(problems()).to.deep.equal([]));
    expect(backingFileOf(loop)).not.to.equal("/");
  });
});

function backingFileOf(loop: string): string {
  try {
    return readFileSync(`/sys/block/${basename(loop)}/loop/backing_file`, "utf8").trim();
  } catch {
    return "";
  }
}

function isOn(loop: string, baseFolder: string): boolean {
  return backingFileOf(loop).startsWith(realpathSync(baseFolder));
}
