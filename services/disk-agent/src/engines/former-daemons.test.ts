import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { silentLogger, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { Drive, eventually, skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { AgentScene, DEVICE_BYTES } from "../testing/agent-scene.js";
import { endFormerDaemons } from "./former-daemons.js";

const FILES = ["nbd", "qmp", "via", "pid", "log", "vmdk"].map((kind) => `session-3.${kind}`);

/** Writes to the file in a thread of its own, as a storage daemon does. */
const WRITE = `
const fs = require("node:fs");
const fd = fs.openSync(process.argv[1], fs.constants.O_WRONLY | fs.constants.O_SYNC);
fs.write(fd, Buffer.alloc(4096), () => {});
`;

/** Starts a program under the name of the storage daemon, which works in the folder. */
async function startDaemon(folder: string, program = "sleep", ...args: string[]): Promise<ChildProcess> {
  const argv0 = "/usr/bin/qemu-storage-daemon";
  const daemon = spawn(program, args.length === 0 ? ["1000"] : args, { cwd: folder, stdio: "ignore", argv0 });
  await eventually(() => readFileSync(`/proc/${daemon.pid}/cmdline`, "utf8").startsWith(argv0));
  return daemon;
}

/** Returns whether a thread of the process waits for a drive. */
function waitsForDrive(pid: number | undefined): boolean {
  const folder = `/proc/${pid}/task`;
  const threads = existsSync(folder) ? readdirSync(folder) : [];
  return threads.some((id) => readFileSync(join(folder, id, "wchan"), "utf8").includes("request_wait"));
}

/** Fills the folder with the files of a daemon's session. */
function writeFiles(folder: string): void {
  for (const name of FILES) writeFileSync(join(folder, name), "");
  mkdirSync(join(folder, "session-3.key"));
  writeFileSync(join(folder, "session-3.key", "keys.psk"), "dev-a/3:00\n");
}

describe("storage daemons that an agent of 0.1.0 has left", () => {
  const daemons: ChildProcess[] = [];
  const start = async (...command: Parameters<typeof startDaemon>) => {
    const daemon = await startDaemon(...command);
    daemons.push(daemon);
    return daemon;
  };

  afterEach(() => {
    for (const daemon of daemons.splice(0)) daemon.kill("SIGKILL");
  });

  it("end, stopped ones and those of a removed folder, too, and leave no key and no other file", async () => {
    const folder = join(temporaryFolder(), "exports");
    mkdirSync(folder);
    const removed = await start(folder);
    rmSync(folder, { recursive: true });
    mkdirSync(folder);
    writeFiles(folder);
    writeFileSync(join(folder, "session-3.img.loops"), "");
    const stopped = await start(folder);
    stopped.kill("SIGSTOP");
    expect(await endFormerDaemons(folder, silentLogger)).to.have.members([removed.pid, stopped.pid]);
    await eventually(() => expect([removed.signalCode, stopped.signalCode]).to.deep.equal(["SIGKILL", "SIGKILL"]));
    expect(readdirSync(folder)).to.deep.equal(["session-3.img.loops"]);
    expect(await endFormerDaemons(folder, silentLogger)).to.deep.equal([]);
  });

  it("are told from those of other agents, and from other programs that work in the folder", async () => {
    const [folder, other] = [temporaryFolder(), temporaryFolder()];
    const daemon = await start(other);
    const program = spawn("sleep", ["1000"], { cwd: folder });
    daemons.push(program);
    await eventually(() => expect(readlinkSync(`/proc/${program.pid}/cwd`)).to.equal(folder));
    expect(await endFormerDaemons(folder, silentLogger)).to.deep.equal([]);
    expect([daemon.signalCode, program.signalCode]).to.deep.equal([null, null]);
  });

  it("fail the agent's start while one of them hangs in a write, and end once its device answers", async function () {
    const problem = Drive.problem();
    if (problem !== undefined) skipBecause(this, problem);
    const folder = temporaryFolder();
    const drive = await Drive.open(join(folder, "drive"), DEVICE_BYTES);
    try {
      drive.hang();
      const { pid } = await start(folder, process.execPath, "-e", WRITE, drive.path);
      await eventually(() => waitsForDrive(pid));
      // The second start finds a process whose first thread has ended.
      for (const _ of [1, 2])
        await rejection(endFormerDaemons(folder, silentLogger, 100), UnavailableError, "was killed and has not ended");
      drive.resume();
      expect(await endFormerDaemons(folder, silentLogger)).to.have.length.below(2);
      expect(waitsForDrive(pid)).to.equal(false);
    } finally {
      drive.resume();
      await drive.close();
    }
  });

  describe("with disks in its cache", () => {
    const scene = AgentScene.forEachTest();

    it("end before the agent registers, which serves the disks again", async () => {
      await scene.start();
      const orders = await scene.orders();
      const extent = { deviceId: "dev-a", hostId: "host-1", sizeBytes: DEVICE_BYTES };
      const { exportPath } = await orders.exportAtOnce("disk-1", 3, [extent]);
      const { length } = scene.registry.registrations;
      await scene.agent.process.kill();
      const exports = join(scene.agent.baseFolder, "exports");
      writeFiles(exports);
      const daemon = await start(exports);
      let wasThere: boolean | undefined;
      const registered = eventually(() => {
        expect(scene.registry.registrations.length).to.be.above(length);
        wasThere = existsSync(`/proc/${daemon.pid}/cwd`);
      });
      await scene.agent.process.start();
      await registered;
      expect(wasThere).to.equal(false);
      expect(existsSync(exportPath)).to.equal(true);
      expect(readdirSync(exports)).to.deep.equal(["disk-1.sock"]);
    });
  });
});
