import { execFileSync } from "node:child_process";
import { mkdirSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { AttachState, HostState } from "@diskmesh/api/registry";
import { InvalidStateError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, leaveToVerify, skipBecause, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { makeDeviceFile, openFiles } from "./mesh/device-files.js";
import { registryFleet } from "./mesh/fleets.js";
import { TestMesh } from "./mesh/test-mesh.js";

const SIZE = 256 * 4096;
/** Interval in ms that no test reaches: rescans run only when the test asks for them. */
const NEVER_MS = 3_600_000;

describe("the devices of a host, from its files to the registry", () => {
  let mesh: TestMesh;
  let files = "";

  const start = async (agent: object, prepare: () => void = () => {}): Promise<void> => {
    mesh = await TestMesh.start(
      registryFleet({
        hostIds: ["h1"],
        agent: (_, folder) => {
          files = join(folder, "files");
          makeDeviceFile(join(files, "list-1"), SIZE);
          prepare();
          return JSON.parse(JSON.stringify(agent).replaceAll("FILES", files));
        },
      }),
    );
  };
  afterEach(() => mesh?.[Symbol.asyncDispose]());

  const path = (name: string) => join(files, name);
  const held = (name: string) => openFiles(mesh.process("h1").pid).filter((file) => file === path(name)).length;
  /** Waits until each file is open this often. A check of a path also opens its file for a moment, repeatedly. */
  const holds = (counts: Readonly<Record<string, number>>) =>
    eventually(() =>
      expect(Object.fromEntries(Object.keys(counts).map((name) => [name, held(name)]))).to.deep.equal(counts),
    );
  const rescan = () => mesh.agentClient("h1").rescanDevices({});
  /** Adds a device without an identity: loop devices and files on FUSE have none. */
  const add = (deviceId: string) =>
    mesh.clients.registry.addDevice({ hostId: "h1", deviceId, acceptUnidentified: true });
  /** Waits until the host is ONLINE; on a busy machine a heartbeat may be late. */
  const isOnline = () =>
    eventually(async () => {
      expect((await mesh.clients.registry.getHost({ hostId: "h1" })).host?.state).to.equal(HostState.ONLINE);
    });
  const until = (deviceId: string, fields: object) =>
    eventually(async () => {
      const device = await mesh.device(deviceId);
      expect(device, `${deviceId}: ${device.lastError} ${device.healthMessage}`).to.deep.include(fields);
      return device;
    });
  const ready = { attachState: AttachState.ATTACHED, health: "HEALTH_ONLINE", dirty: false };
  const LISTED = [{ deviceId: "listed", path: "FILES/list-1" }];

  it("all devices of a file, listed or discovered, share a descriptor; a new file is found on request", async function () {
    skipWithout(this, "mkfifo");
    const rules = [
      {
        glob: "FILES/disk-*",
        pools: [
          { pool: "small", maxSizeBytes: SIZE },
          { pool: "cut", deviceSizeBytes: SIZE, maxSizeBytes: 10 * SIZE },
        ],
      },
    ];
    await start({ devices: LISTED, discovery: { rules }, tuning: { rescanIntervalMs: NEVER_MS } }, () => {
      makeDeviceFile(path("disk-a"), SIZE);
      makeDeviceFile(path("disk-b"), 3 * SIZE);
      makeDeviceFile(path("disk-huge"), 11 * SIZE);
      symlinkSync(path("list-1"), path("disk-alias"));
      execFileSync("mkfifo", [path("disk-fifo")]);
    });
    await eventually(() => mesh.device("h1-disk-b-3"));
    await mesh.clients.registry.addHost({ hostId: "h1" });
    for (const deviceId of ["listed", "h1-disk-a", "h1-disk-b-1", "h1-disk-b-2", "h1-disk-b-3"])
      await until(deviceId, ready);
    expect(await mesh.device("h1-disk-b-2")).to.include({ pool: "cut", offsetBytes: SIZE, sizeBytes: SIZE });
    expect((await mesh.device("h1-disk-a")).pool).to.equal("small");
    expect(["list-1", "disk-a", "disk-b", "disk-huge"].map(held)).to.deep.equal([1, 1, 1, 0]);
    const looked = await rescan();
    expect(looked.changedDeviceIds).to.deep.equal([]);
    const skipped = new Map(looked.skippedPaths.map((one) => [one.path, one.reason]));
    expect(skipped.get(path("disk-fifo"))).to.match(/it is a FIFO/);
    expect(skipped.get(path("disk-huge"))).to.match(/no pool rule/);
    expect(skipped.get(path("disk-alias"))).to.match(/same file as .*list-1/);
    makeDeviceFile(path("disk-c"), SIZE);
    expect((await rescan()).changedDeviceIds).to.deep.equal(["h1-disk-c"]);
    const found = await eventually(() => mesh.device("h1-disk-c"));
    expect(found).to.include({ attachState: AttachState.UNKNOWN, sizeBytes: SIZE });
    expect(held("disk-c"), "nobody added it").to.equal(0);
    await add("h1-disk-c");
    await until("h1-disk-c", ready);
    expect(held("disk-c")).to.equal(1);
  });

  it("a swapped drive is detected, is ERROR, and is erased and attached after AddDevice, without a restart", async () => {
    await start({ devices: LISTED, tuning: { rescanIntervalMs: 200 } });
    await eventually(() => mesh.device("listed"));
    await add("listed");
    const before = await until("listed", ready);
    const { pid } = mesh.process("h1");
    renameSync(path("list-1"), path("pulled"));
    await until("listed", { health: "HEALTH_ERROR" });
    makeDeviceFile(path("list-1"), 2 * SIZE);
    const swapped = await until("listed", { health: "HEALTH_ERROR", attachState: AttachState.ATTACHING });
    expect(swapped.replacement?.sizeBytes).to.equal(2 * SIZE);
    expect(swapped.deviceGeneration).to.be.above(before.deviceGeneration);
    await until("listed", { attachState: AttachState.ATTACHING });
    // A registered device stays open until an operator acts.
    await holds({ pulled: 1, "list-1": 0 });
    await add("listed");
    const after = await until("listed", { ...ready, sizeBytes: 2 * SIZE });
    expect(after.fileIdentity).not.to.equal(before.fileIdentity);
    await holds({ pulled: 0, "list-1": 1 });
    expect(mesh.process("h1").pid).to.equal(pid);
    // A file of equal size counts as another one as well; only its inode differs.
    makeDeviceFile(path("same"), 2 * SIZE);
    renameSync(path("same"), path("list-1"));
    await until("listed", { health: "HEALTH_ERROR", attachState: AttachState.ATTACHING });
    await add("listed");
    await until("listed", ready);
    await holds({ "list-1": 1 });
    expect(openFiles(pid).filter((file) => file.endsWith("(deleted)") && file.startsWith(files))).to.deep.equal([]);
  });

  it("a disk keeps its data when its file is swapped, and after a restart the agent does not hold the other file", async function () {
    leaveToVerify(this);
    await start({ devices: LISTED, tuning: { rescanIntervalMs: 200 } });
    await eventually(() => mesh.device("listed"));
    await add("listed");
    await until("listed", ready);
    await mesh.clients.registry.createDisk({ diskId: "x", sizeBytes: SIZE, az: "z1" });
    await mesh.clients.registry.publishDisk({ diskId: "x", hostId: "h1" });
    renameSync(path("list-1"), path("pulled"));
    makeDeviceFile(path("list-1"), SIZE);
    await until("listed", { health: "HEALTH_ERROR", attachState: AttachState.ATTACHING });
    await rejection(add("listed"), InvalidStateError, "disk x is on it");
    const kept = await mesh.device("listed");
    expect(kept.replacement, "a disk's device is not given to other hardware").not.to.equal(undefined);
    await holds({ pulled: 1, "list-1": 0 });
    await mesh.process("h1").restart();
    await eventually(async () => {
      const { devices } = await mesh.agentClient("h1").listDevices({});
      expect(devices[0]?.healthMessage).to.match(/differs from the registered device/);
    });
    await delay(1_000);
    await holds({ pulled: 0, "list-1": 0 });
    // With the former hardware back in place the device is the same again.
    renameSync(path("pulled"), path("list-1"));
    await until("listed", { attachState: AttachState.ATTACHED, health: "HEALTH_ONLINE", dirty: false, diskId: "x" });
    await holds({ "list-1": 1 });
  });

  describe("block devices", () => {
    const loops: string[] = [];
    const loopOf = (name: string): string => {
      const loop = execFileSync("losetup", ["--find", "--show", path(name)], {
        encoding: "utf8",
        stdio: "pipe",
      }).trim();
      loops.push(loop);
      return loop;
    };

    before(function () {
      if (process.getuid?.() !== 0) skipBecause(this, "only root can make a loop device");
      try {
        execFileSync("losetup", ["--find"], { stdio: "pipe" });
      } catch {
        skipBecause(this, "this machine has no loop devices");
      }
    });
    afterEach(async () => {
      await mesh?.[Symbol.asyncDispose]();
      for (const loop of loops.splice(0)) execFileSync("losetup", ["--detach", loop]);
    });

    it("ranges of a drive share a descriptor, and another drive in its slot is ERROR until AddDevice", async function () {
      leaveToVerify(this);
      const range = (deviceId: string, index: number) => ({
        deviceId,
        path: "FILES/slot",
        offsetBytes: index * SIZE,
        sizeBytes: SIZE,
      });
      await start({ devices: [range("r1", 0), range("r2", 1)], tuning: { rescanIntervalMs: 200 } }, () => {
        makeDeviceFile(path("drive-1"), 2 * SIZE);
        makeDeviceFile(path("drive-2"), 2 * SIZE);
        symlinkSync(loopOf("drive-1"), path("slot"));
      });
      await eventually(() => mesh.device("r2"));
      const refused = mesh.clients.registry.addHost({ hostId: "h1" });
      await rejection(refused, InvalidStateError, "device r1 of host h1 has no unique serial number");
      for (const deviceId of ["r1", "r2"]) await add(deviceId);
      for (const deviceId of ["r1", "r2"]) await until(deviceId, ready);
      expect((await mesh.device("r1")).identifiedBy).to.equal("IDENTIFIED_BY_NONE");
      const { pid } = mesh.process("h1");
      const [first = ""] = loops;
      const count = (loop: string) => openFiles(pid).filter((file) => file === loop).length;
      await eventually(() => expect(count(first)).to.equal(1));
      rmSync(path("slot"));
      symlinkSync(loopOf("drive-2"), path("slot"));
      const second = loops.at(-1) ?? "";
      for (const deviceId of ["r1", "r2"])
        await until(deviceId, { health: "HEALTH_ERROR", attachState: AttachState.ATTACHING });
      await mesh.clients.registry.addDevice({ hostId: "h1", path: path("slot"), acceptUnidentified: true });
      for (const deviceId of ["r1", "r2"]) await until(deviceId, ready);
      await eventually(() => expect([count(first), count(second)]).to.deep.equal([0, 1]));
    });

    it("a drive with hanging writes is pending alone; the other devices, heartbeats and a rescan continue", async function () {
      const devices = [...LISTED, { deviceId: "stalled", path: "FILES/mount/stalled" }];
      let mounted = false;
      let frozen = false;
      const thaw = () => {
        if (frozen) execFileSync("fsfreeze", ["--unfreeze", path("mount")]);
        frozen = false;
      };
      try {
        await start({ devices, tuning: { rescanIntervalMs: NEVER_MS, eraseChunkBytes: 65_536 } }, () => {
          makeDeviceFile(path("image"), 32 * 1024 * 1024);
          mkdirSync(path("mount"));
          try {
            execFileSync("mke2fs", ["-q", "-t", "ext4", "-O", "^has_journal", path("image")], { stdio: "pipe" });
            execFileSync("mount", ["-o", "loop", path("image"), path("mount")], { stdio: "pipe" });
            mounted = true;
          } catch {
            skipBecause(this, "this machine cannot make and mount a file system");
          }
          makeDeviceFile(path("mount/stalled"), SIZE);
        });
        await eventually(() => mesh.device("stalled"));
        // A frozen file system blocks every write in the kernel, like a drive that no longer answers.
        execFileSync("fsfreeze", ["--freeze", path("mount")]);
        frozen = true;
        await mesh.clients.registry.addHost({ hostId: "h1" });
        await until("listed", ready);
        const erasing = await until("stalled", { attachState: AttachState.ATTACHED, dirty: true });
        expect(erasing.eraseSessionNumber).to.be.above(0);
        const { result } = await mesh.clients.registry.removeDevice({
          hostId: "h1",
          deviceId: "stalled",
          // The erase of a hung drive would never end, so the device leaves without one.
          keepData: true,
        });
        expect(result?.code).to.equal("ACTION_CODE_E_TRY_AGAIN");
        // Lasts longer than the heartbeat timeout, and orders the other device meanwhile.
        for (let round = 0; round < 3; round++) {
          await mesh.clients.registry.removeDevice({
            hostId: "h1",
            deviceId: "listed",
          });
          await until("listed", { attachState: AttachState.DETACHED });
          await add("listed");
          await until("listed", { attachState: AttachState.ATTACHED });
          await delay(2_000);
        }
        expect((await rescan()).pendingPaths).to.deep.equal([]);
        await isOnline();
        expect((await mesh.device("stalled")).attachState).to.equal(AttachState.CLOSING);
        const { devices: seen } = await mesh.agentClient("h1").listDevices({});
        const draining = seen.find((device) => device.deviceId === "stalled");
        expect(draining).to.include({ attached: false, filePhase: "draining" });
        expect(draining?.inFlightOperations).to.be.above(0);
        expect(held("mount/stalled"), "never closed under a write").to.equal(1);
        thaw();
        await until("stalled", { attachState: AttachState.DETACHED, detachConfirmed: true });
        expect(held("mount/stalled")).to.equal(0);
      } finally {
        thaw();
        await mesh?.[Symbol.asyncDispose]();
        if (mounted) execFileSync("umount", [path("mount")]);
      }
    });
  });
});
