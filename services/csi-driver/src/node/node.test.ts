import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { MIB_BYTES } from "@diskmesh/domain";
import { skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { DriverProcess, failureOf, LoopDevices, needLoopDevices } from "../testing/index.js";

const SIZE_BYTES = 32 * MIB_BYTES;
const BLOCK = {
  accessType: { $case: "block" as const, value: {} },
  accessMode: { mode: "SINGLE_NODE_WRITER" as const },
};

function mounted(value: object = {}, mode = "SINGLE_NODE_WRITER") {
  return { accessType: { $case: "mount" as const, value }, accessMode: { mode: mode as "SINGLE_NODE_WRITER" } };
}

/** Number of CAP_SYS_RESOURCE, which containers may lack. */
const SYS_RESOURCE = 24n;

function mayGrow(): boolean {
  const [, mask = "0"] = /^CapEff:\s*(\w+)/m.exec(readFileSync("/proc/self/status", "utf8")) ?? [];
  return ((BigInt(`0x${mask}`) >> SYS_RESOURCE) & 1n) === 1n;
}

describe("the node's part of the CSI driver", () => {
  let devices: LoopDevices;
  let driver: DriverProcess;
  let folder: string;
  let staging: string;
  let target: string;
  let volume: { readonly volumeId: string; readonly publishContext: { readonly diskCid: string } };

  before(function () {
    needLoopDevices(this);
  });

  beforeEach(async () => {
    devices = new LoopDevices();
    folder = temporaryFolder();
    staging = join(folder, "staging");
    target = join(folder, "target");
    mkdirSync(staging);
    volume = { volumeId: "v", publishContext: { diskCid: "disk-1" } };
    const node = { instanceId: "i-1", az: "z1", dynamicDisksFolder: devices.folder };
    driver = await DriverProcess.start({ node }, "node");
  });

  afterEach(async () => {
    for (const path of [target, `${target}-2`, staging]) spawnSync("umount", ["--all-targets", path]);
    await driver[Symbol.asyncDispose]();
    devices[Symbol.dispose]();
  });

  const node = () => driver.clients.node;
  const stage = (volumeCapability: object = mounted()) =>
    node().nodeStageVolume({ ...volume, stagingTargetPath: staging, volumeCapability });
  const unstage = () => node().nodeUnstageVolume({ volumeId: "v", stagingTargetPath: staging });
  const publish = (volumeCapability: object = mounted(), more: object = {}) =>
    node().nodePublishVolume({
      ...volume,
      stagingTargetPath: staging,
      targetPath: target,
      volumeCapability,
      ...more,
    });
  const unpublish = (targetPath = target) => node().nodeUnpublishVolume({ volumeId: "v", targetPath });
  const contentHash = () =>
    createHash("sha256")
      .update(readFileSync(devices.fileOf("disk-1")))
      .digest("hex");
  const run = (program: string, ...args: string[]) => {
    const { status, stderr } = spawnSync(program, args, { encoding: "utf8" });
    if (status !== 0) throw new Error(`${program}: ${stderr}`);
  };

  it("makes a file system on an empty disk only, and keeps what was written, when every call is repeated", async () => {
    devices.attach("disk-1", SIZE_BYTES);
    for (const round of [1, 2]) {
      for (const _ of [1, 2]) await stage();
      for (const _ of [1, 2]) await publish();
      const file = join(target, "data");
      if (round === 1) writeFileSync(file, "kept");
      expect(readFileSync(file, "utf8")).to.equal("kept");
      for (const _ of [1, 2]) await unpublish();
      expect(existsSync(target)).to.equal(false);
      for (const _ of [1, 2]) await unstage();
      expect(existsSync(join(staging, "data"))).to.equal(false);
      devices.detach("disk-1");
      devices.attach("disk-1", SIZE_BYTES);
    }
  });

  it("gives the next pod the disk's new device when the staged one has ended", async () => {
    devices.attach("disk-1", SIZE_BYTES);
    await stage();
    await publish();
    writeFileSync(join(target, "data"), "kept");
    spawnSync("sync", ["--file-system", target]);
    devices.detach("disk-1");
    const device = devices.attach("disk-1", SIZE_BYTES);
    await publish();
    await unpublish();
    await publish();
    const { stdout } = spawnSync("findmnt", ["--noheadings", "--output", "SOURCE", target], { encoding: "utf8" });
    expect(stdout.trim()).to.equal(device);
    expect(readFileSync(join(target, "data"), "utf8")).to.equal("kept");
  });

  it("changes nothing on a disk that holds anything else", async () => {
    const fillings: Record<string, () => void> = {
      swap: () => run("mkswap", devices.deviceOf("disk-1")),
      "a LUKS header": () =>
        writeFileSync(devices.deviceOf("disk-1"), "LUKS\xba\xbe\x00\x01", { encoding: "latin1", flag: "r+" }),
      "ext4 instead of xfs": () => run("mkfs.ext4", "-q", devices.deviceOf("disk-1")),
    };
    for (const [what, fill] of Object.entries(fillings)) {
      rmSync(devices.fileOf("disk-1"), { force: true });
      devices.attach("disk-1", SIZE_BYTES);
      fill();
      run("sync", devices.deviceOf("disk-1"));
      const before = contentHash();
      const capability = what.startsWith("ext4") ? mounted({ fsType: "xfs" }) : mounted();
      expect(await failureOf(stage(capability)), what).to.match(/^FAILED_PRECONDITION: .*nothing was changed/);
      expect(contentHash(), what).to.equal(before);
      devices.detach("disk-1");
    }
  });

  it("repairs what fsck repairs by itself before the mount, and mounts nothing that needs a person", async () => {
    const device = devices.attach("disk-1", SIZE_BYTES);
    await stage();
    await unstage();
    run("debugfs", "-w", "-R", "ssv state 2", device);
    await stage();
    await unstage();
    run("debugfs", "-w", "-R", "clri <2>", device);
    run("debugfs", "-w", "-R", "ssv state 2", device);
    expect(await failureOf(stage())).to.match(/^FAILED_PRECONDITION: .*run it by hand/);
    expect(readFileSync("/proc/self/mountinfo", "utf8")).not.to.include(staging);
  });

  it("says what a host without block devices lacks, and that a disk is not attached", async () => {
    const socket = join(folder, "nbd.sock");
    const server: Server = createServer().listen(socket);
    symlinkSync(socket, join(devices.folder, "disk-1"));
    try {
      expect(await failureOf(stage())).to.match(/^FAILED_PRECONDITION: .*NBD socket.*nbdfuse/);
    } finally {
      server.close();
    }
    volume = { volumeId: "v", publishContext: { diskCid: "disk-2" } };
    expect(await failureOf(stage())).to.match(/^UNAVAILABLE: the disk is not attached to this node/);
    volume = { volumeId: "v", publishContext: { diskCid: "../etc" } };
    expect(await failureOf(stage())).to.match(/^INVALID_ARGUMENT: publish_context/);
  });

  it("publishes at a second path only for several writers of one node, and refuses other arguments", async () => {
    devices.attach("disk-1", SIZE_BYTES);
    await stage();
    await publish();
    const second = { targetPath: `${target}-2` };
    for (const mode of ["SINGLE_NODE_WRITER", "SINGLE_NODE_SINGLE_WRITER"])
      expect(await failureOf(publish(mounted({}, mode), second))).to.match(/^FAILED_PRECONDITION: .*is published at/);
    await publish(mounted({}, "SINGLE_NODE_MULTI_WRITER"), { ...second, readonly: true });
    expect(() => writeFileSync(join(second.targetPath, "x"), "")).to.throw("EROFS");
    expect(await failureOf(publish(mounted({}, "SINGLE_NODE_MULTI_WRITER"), second))).to.match(/^ALREADY_EXISTS/);
    expect(await failureOf(stage(mounted({}, "SINGLE_NODE_READER_ONLY")))).to.match(/^ALREADY_EXISTS/);
    await unpublish();
    await unpublish(second.targetPath);
    await unstage();
    expect(await failureOf(publish())).to.match(/^FAILED_PRECONDITION: nothing is mounted at the staging path/);
  });

  it("publishes the device of a block volume, and never for reading when the disk allows writes", async () => {
    devices.attach("disk-1", SIZE_BYTES);
    expect(await failureOf(publish(BLOCK, { readonly: true }))).to.match(/^FAILED_PRECONDITION/);
    for (const _ of [1, 2]) await stage(BLOCK);
    for (const _ of [1, 2]) await publish(BLOCK);
    expect(statSync(target).isBlockDevice()).to.equal(true);
    expect(await failureOf(publish(BLOCK, { targetPath: `${target}-2` }))).to.match(/^FAILED_PRECONDITION/);
    const stats = await node().nodeGetVolumeStats({ volumeId: "v", volumePath: target });
    expect(stats.usage).to.deep.equal([{ available: 0, total: SIZE_BYTES, used: 0, unit: "BYTES" }]);
    for (const _ of [1, 2]) await unpublish();
    expect(existsSync(target)).to.equal(false);
    await unstage();
  });

  it("never removes the content of a target path that is not mounted", async () => {
    mkdirSync(target);
    writeFileSync(join(target, "data"), "kept");
    await failureOf(unpublish());
    expect(readFileSync(join(target, "data"), "utf8")).to.equal("kept");
    rmSync(target, { recursive: true });
  });

  it("gives all files to the group of the volume once", async () => {
    devices.attach("disk-1", SIZE_BYTES);
    await stage();
    mkdirSync(join(staging, "folder"));
    writeFileSync(join(staging, "folder/file"), "", { mode: 0o600 });
    symlinkSync("/etc/passwd", join(staging, "link"));
    const passwd = statSync("/etc/passwd");
    await stage(mounted({ volumeMountGroup: "4711" }));
    const access = (path: string) => [statSync(path).gid, statSync(path).mode & 0o7777];
    expect(access(join(staging, "folder/file"))).to.deep.equal([4711, 0o660]);
    expect(access(join(staging, "folder"))).to.deep.equal([4711, 0o2775]);
    expect(access(staging)).to.deep.equal([4711, 0o2775]);
    expect(statSync("/etc/passwd")).to.include({ gid: passwd.gid, mode: passwd.mode });
    writeFileSync(join(staging, "own"), "", { mode: 0o600 });
    run("chgrp", "0", join(staging, "own"));
    await stage(mounted({ volumeMountGroup: "4711" }));
    expect(statSync(join(staging, "own")).gid, "the second mount walks nothing").to.equal(0);
    await publish(mounted({ volumeMountGroup: "4712" }));
    expect(statSync(join(target, "own")).gid, "the group of a pod that shares it").to.equal(4712);
    await unpublish();
    await unstage();
  });

  it("grows the file system to the size of its device", async function () {
    if (!mayGrow()) skipBecause(this, "growing a mounted file system needs CAP_SYS_RESOURCE");
    devices.attach("disk-1", SIZE_BYTES);
    await stage();
    await publish();
    const total = async () =>
      (await node().nodeGetVolumeStats({ volumeId: "v", volumePath: target })).usage[0]?.total ?? 0;
    const before = await total();
    const grow = () =>
      node().nodeExpandVolume({
        volumeId: "v",
        volumePath: target,
        capacityRange: { requiredBytes: 2 * SIZE_BYTES, limitBytes: 0 },
      });
    expect(await failureOf(grow())).to.match(/^UNAVAILABLE: .*not yet/);
    devices.grow("disk-1", 2 * SIZE_BYTES);
    for (const _ of [1, 2]) expect(await grow()).to.deep.equal({ capacityBytes: 2 * SIZE_BYTES });
    expect(await total()).to.be.above(1.8 * before);
    await unpublish();
    await unstage();
  });

  it("offers no controller, stops cleanly, and serves again on the socket that it left", async () => {
    expect(await failureOf(driver.clients.controller.listVolumes({}))).to.match(/^UNIMPLEMENTED/);
    expect(await node().nodeGetInfo({})).to.deep.include({
      nodeId: "i-1",
      accessibleTopology: { segments: { "csi.diskmesh/az": "z1" } },
    });
    await driver.killAndStart();
    expect(await driver.clients.identity.probe({})).to.deep.equal({ ready: true });
    expect(await driver.stop()).to.equal(0);
  });
});
