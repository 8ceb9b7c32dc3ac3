import { execFile } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
} from "node:fs";
import { open, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import type { DiskId } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, skipBecause, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { DEVICE_BYTES, EngineScene, noise, specOf } from "../testing/engine-scene.js";
import { whyNoBlockDevices } from "./block-devices.js";

// The disks are served from this process, so that a synchronous call on one would wait for itself.
const run = promisify(execFile);

describe("a disk as a block device", () => {
  let scene: EngineScene;
  const mounts: string[] = [];

  beforeEach(async function () {
    const whyNot = await whyNoBlockDevices();
    if (whyNot !== undefined) skipBecause(this, whyNot);
    scene = new EngineScene("node", undefined, { exportKind: "DEVICE" });
    await scene.start();
  });

  afterEach(async () => {
    for (const mount of mounts.splice(0)) await run("umount", ["--lazy", mount]).catch(() => undefined);
    await scene?.stop();
  });

  const mount = async (device: string): Promise<string> => {
    const folder = join(scene.fixture.folder, "mounted");
    mkdirSync(folder, { recursive: true });
    await run("mount", [device, folder]);
    mounts.push(folder);
    return folder;
  };

  it("has the disk's bytes, whatever the size and number of its requests", async () => {
    const path = await scene.publish("disk-1", 1, ["a", "b"]);
    expect(lstatSync(realpathSync(path)).isBlockDevice()).to.equal(true);
    const data = noise(2 * DEVICE_BYTES);
    const device = await open(path, "r+");
    await device.write(data, 0, data.length, 0);
    await device.sync();
    const many = noise(256 * 4096);
    const writes = Array.from({ length: 256 }, (_, index) => device.write(many, 4096 * index, 4096, 4096 * index));
    await Promise.all(writes);
    await device.sync();
    await device.close();
    data.set(many);
    expect(Buffer.concat([scene.bytesOf("a"), scene.bytesOf("b")]).equals(data)).to.equal(true);
  });

  it("lets a process go on that waits for a former limit", async () => {
    const spec = { ...specOf("disk-1", 1, ["a"]), exportKind: "DEVICE" as const };
    const path = await scene.publish("disk-1", 1, ["a"]);
    // A hole would be read without a request to the limited node.
    await writeFile(path, noise(DEVICE_BYTES));
    const none = { readIops: 0, writeIops: 0, readBytesPerSecond: 0, writeBytesPerSecond: 0, burstSeconds: 0 };
    await scene.exports.serve({ ...spec, limits: { ...none, readBytesPerSecond: 50 }, revision: 1 });
    const reading = run("dd", [`if=${path}`, "of=/dev/null", "bs=64k", "iflag=direct"]);
    await eventually(() => sleepingUninterruptibly().some((stat) => stat.includes(" (dd) ")));
    await scene.exports.serve({ ...spec, revision: 2 });
    // With the first limit the read takes hours.
    await reading;
  });

  it("frees the space of discarded and zeroed bytes, and of deleted files", async function () {
    skipWithout(this, "blkdiscard", "fstrim", "mkfs.ext4");
    const path = await scene.publish("disk-1", 1, ["a"]);
    const usedBytes = () => statSync(join(scene.fixture.folder, "a")).blocks * 512;
    const data = noise(DEVICE_BYTES);
    const device = await open(path, "r+");
    await device.write(data, 0, data.length, 0);
    await device.sync();
    await device.close();
    const before = usedBytes();
    await run("blkdiscard", ["--offset", "0", "--length", "65536", path]);
    await run("blkdiscard", ["--zeroout", "--offset", "131072", "--length", "65536", path]);
    data.fill(0, 0, 65_536).fill(0, 131_072, 196_608);
    expect(scene.bytesOf("a").equals(data)).to.equal(true);
    expect(before - usedBytes()).to.be.within(65_536, 131_072);
    await run("mkfs.ext4", ["-q", path]);
    const folder = await mount(path);
    await writeFile(join(folder, "file"), noise(262_144));
    await run("sync", ["-f", folder]);
    const full = usedBytes();
    await rm(join(folder, "file"));
    await run("sync", ["-f", folder]);
    await run("fstrim", [folder]);
    expect(full - usedBytes()).to.be.at.least(262_144 - 16_384);
    await run("umount", [folder]);
    mounts.length = 0;
  });

  it("carries a file system, which fails at once when its session is fenced, and no process hangs", async function () {
    skipWithout(this, "mkfs.ext4");
    const path = await scene.publish("disk-1", 1, ["a", "b"]);
    await run("mkfs.ext4", ["-q", path]);
    await run("e2fsck", ["-fn", path]);
    const folder = await mount(path);
    await run("sh", ["-c", `echo kept > ${folder}/file && sync`]);
    const writer = run("sh", [
      "-c",
      `while dd if=/dev/zero of=${folder}/x bs=4k count=9 oflag=direct; do :; done; exit 7`,
    ]);
    const failed = writer.catch(({ code }) => code);
    await sleep(200);
    await scene.open("disk-1", 2, ["a", "b"]);
    const granted = [scene.bytesOf("a"), scene.bytesOf("b")];
    expect(await failed).to.equal(7);
    await run("umount", [folder]);
    mounts.length = 0;
    // Other processes of the machine wait for a moment, too.
    await eventually(() => expect(sleepingUninterruptibly()).to.deep.equal([]));
    expect(
      [scene.bytesOf("a"), scene.bytesOf("b")].every((bytes, index) => bytes.equals(granted[index] as Buffer)),
    ).to.equal(true);
    await scene.exports.end("disk-1" as DiskId, 2);
    expect(existsSync(path)).to.equal(false);
    const again = await scene.publish("disk-1", 3, ["a", "b"]);
    const file = join(await mount(again), "file");
    expect(await readFile(file, "utf8")).to.equal("kept\n");
  });

  it("goes on when its link and the path of its disk's socket are removed", async () => {
    const path = await scene.publish("disk-1", 1, ["a"]);
    const loop = readlinkSync(path);
    const device = await open(path, "r+");
    rmSync(path);
    rmSync(path.replace(/device$/, "sock"));
    await scene.exports.lookAtSockets();
    expect(readlinkSync(path)).to.equal(loop);
    expect(existsSync(path.replace(/device$/, "sock"))).to.equal(true);
    const data = noise(4096);
    await device.write(data, 0, data.length, 0);
    await device.sync();
    await device.close();
    expect(scene.bytesOf("a").subarray(0, 4096).equals(data)).to.equal(true);
  });

  it("is told to be dead while a mount has the device of an agent that carried it itself and has restarted", async function () {
    skipWithout(this, "mkfs.ext4");
    const publish = () => scene.publish("disk-1", 1, ["a"]);
    const path = await publish();
    await run("mkfs.ext4", ["-q", path]);
    const loop = readlinkSync(path);
    const folder = await mount(path);
    scene = new EngineScene("node", await scene.leave(), { exportKind: "DEVICE" });
    await scene.start();
    expect(await publish()).to.equal(path);
    expect(readlinkSync(path)).not.to.equal(loop);
    await eventually(() => expect(scene.exports.problems()[0]?.message).to.include(loop).and.to.include(folder));
    await run("umount", [folder]);
    mounts.length = 0;
    await eventually(() => expect(scene.exports.problems()).to.deep.equal([]));
  });

  it("holds up its requests while its process does not answer, and says so", async () => {
    const path = await scene.publish("disk-1", 1, ["a"]);
    const image = readFileSync(`/sys/block/${readlinkSync(path).slice("/dev/".length)}/loop/backing_file`, "utf8");
    const pid = Number(readFileSync(`${image.trim()}.pid`, "utf8"));
    const queue = () => scene.exports.served()[0]?.queue;
    expect(queue()?.openRequests ?? 0).to.equal(0);
    process.kill(pid, "SIGSTOP");
    const reading = run("dd", [`if=${path}`, "of=/dev/null", "bs=4096", "count=1", "iflag=direct"]);
    try {
      await eventually(async () => {
        const waitsForBlockDevice = `${readlinkSync(path)} (nbdfuse, process ${pid})`;
        expect(queue()).to.include({ openRequests: 1, waitsForBlockDevice });
        expect(queue()?.oldestAgeMs).to.be.above(100);
      });
    } finally {
      process.kill(pid, "SIGCONT");
      await reading;
    }
    expect(queue()?.openRequests ?? 0).to.equal(0);
  });

  it("leaves neither device nor mount at its end", async () => {
    const path = await scene.publish("disk-1", 1, ["a"]);
    const loop = readlinkSync(path);
    await scene.exports.end("disk-1" as DiskId, 1);
    expect(existsSync(path)).to.equal(false);
    expect(existsSync(`/sys/block/${loop.slice("/dev/".length)}/loop`)).to.equal(false);
    expect(readFileSync("/proc/mounts", "utf8")).not.to.include(scene.fixture.folder);
    expect(readdirSync(join(scene.fixture.folder, "exports"))).to.deep.equal([]);
  });

  it("leaves no device when its nbdfuse is ended, which removes the mount, and is served again", async () => {
    const path = await scene.publish("disk-1", 1, ["a"]);
    const backingFile = `/sys/block/${readlinkSync(path).slice("/dev/".length)}/loop/backing_file`;
    const image = readFileSync(backingFile, "utf8");
    process.kill(Number(readFileSync(`${image.trim()}.pid`, "utf8")), "SIGTERM");
    await eventually(() => expect(readFileSync(backingFile, "utf8")).to.equal("/\n"));
    await scene.exports.lookAtSockets();
    // The number may be another device's by now, also of another test.
    if (existsSync(backingFile)) expect(readFileSync(backingFile, "utf8")).not.to.equal("/\n");
    expect(lstatSync(realpathSync(path)).isBlockDevice()).to.equal(true);
    const data = noise(4096);
    const device = await open(path, "r+");
    await device.write(data, 0, data.length, 0);
    await device.sync();
    await device.close();
    expect(scene.bytesOf("a").subarray(0, 4096).equals(data)).to.equal(true);
  });

  it("is refused with the reason where the host cannot make it", async () => {
    const other = new EngineScene("node", undefined, { whyNoBlockDevices: "there is no /dev/fuse" });
    await other.start();
    await other.open("disk-1", 1, ["a"]);
    const spec = { ...specOf("disk-1", 1, ["a"]), exportKind: "DEVICE" as const };
    expect((await rejection(other.exports.serve(spec))).message).to.match(
      /block device.*there is no \/dev\/fuse.*export: nbd/,
    );
    await other.stop();
  });
});

/** Returns the processes, other than the kernel's own, that wait in the kernel and cannot be killed. */
function sleepingUninterruptibly(): string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
        const [state, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
        return state === "D" && parent !== "2" ? [stat] : [];
      } catch {
        return [];
      }
    });
}
