import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { MIB_BYTES } from "@diskmesh/domain";
import { expect } from "chai";
import { failureOf, needLoopDevices } from "../testing/index.js";
import { run } from "../testing/run.js";
import { mounted, TestNode } from "../testing/test-node.js";

const SIZE_BYTES = 32 * MIB_BYTES;
const BLOCK = {
  accessType: { $case: "block" as const, value: {} },
  accessMode: { mode: "SINGLE_NODE_WRITER" as const },
};

describe("the node's part of the CSI driver", () => {
  let node: TestNode;

  before(function () {
    needLoopDevices(this);
  });

  beforeEach(async () => {
    node = await TestNode.start();
  });

  afterEach(() => node[Symbol.asyncDispose]());

  it("makes a file system on an empty disk only, and keeps what was written, when every call is repeated", async () => {
    node.devices.attach("disk-1", SIZE_BYTES);
    for (const round of [1, 2]) {
      for (const _ of [1, 2]) await node.stage();
      for (const _ of [1, 2]) await node.publish();
      const file = join(node.target, "data");
      if (round === 1) writeFileSync(file, "kept");
      expect(readFileSync(file, "utf8")).to.equal("kept");
      for (const _ of [1, 2]) await node.unpublish();
      expect(existsSync(node.target)).to.equal(false);
      for (const _ of [1, 2]) await node.unstage();
      expect(existsSync(join(node.staging, "data"))).to.equal(false);
      node.devices.detach("disk-1");
      node.devices.attach("disk-1", SIZE_BYTES);
    }
  });

  it("gives the next pod the disk's new device when the staged one has ended", async () => {
    node.devices.attach("disk-1", SIZE_BYTES);
    await node.stage();
    await node.publish();
    writeFileSync(join(node.target, "data"), "kept");
    spawnSync("sync", ["--file-system", node.target]);
    node.devices.detach("disk-1");
    const device = node.devices.attach("disk-1", SIZE_BYTES);
    await node.publish();
    await node.unpublish();
    await node.publish();
    const { stdout } = spawnSync("findmnt", ["--noheadings", "--output", "SOURCE", node.target], { encoding: "utf8" });
    expect(stdout.trim()).to.equal(device);
    expect(readFileSync(join(node.target, "data"), "utf8")).to.equal("kept");
  });

  it("gives a pod the disk's new device while another pod still has the one that has ended", async () => {
    const shared = mounted({}, "SINGLE_NODE_MULTI_WRITER");
    node.devices.attach("disk-1", SIZE_BYTES);
    await node.stage(shared);
    await node.publish(shared);
    spawnSync("sync", ["--file-system", node.target]);
    node.devices.detach("disk-1");
    const device = node.devices.attach("disk-1", SIZE_BYTES);
    const second = `${node.target}-2`;
    await node.publish(shared, { targetPath: second });
    expect(run("findmnt", "--noheadings", "--output", "SOURCE", second).trim()).to.equal(device);
    await node.unpublish(second);
    await node.unpublish();
  });

  it("changes nothing on a disk that holds anything else", async () => {
    const fillings: Record<string, () => void> = {
      swap: () => run("mkswap", node.devices.deviceOf("disk-1")),
      "a LUKS header": () =>
        writeFileSync(node.devices.deviceOf("disk-1"), "LUKS\xba\xbe\x00\x01", { encoding: "latin1", flag: "r+" }),
      "ext4 instead of xfs": () => run("mkfs.ext4", "-q", node.devices.deviceOf("disk-1")),
    };
    for (const [what, fill] of Object.entries(fillings)) {
      rmSync(node.devices.fileOf("disk-1"), { force: true });
      node.devices.attach("disk-1", SIZE_BYTES);
      fill();
      run("sync", node.devices.deviceOf("disk-1"));
      const before = node.contentHash();
      const capability = what.startsWith("ext4") ? mounted({ fsType: "xfs" }) : mounted();
      expect(await failureOf(node.stage(capability)), what).to.match(/^FAILED_PRECONDITION: .*nothing was changed/);
      expect(node.contentHash(), what).to.equal(before);
      node.devices.detach("disk-1");
    }
  });

  it("repairs what fsck repairs by itself before the mount, and mounts nothing that needs a person", async () => {
    const device = node.devices.attach("disk-1", SIZE_BYTES);
    await node.stage();
    await node.unstage();
    run("debugfs", "-w", "-R", "ssv state 2", device);
    await node.stage();
    await node.unstage();
    run("debugfs", "-w", "-R", "clri <2>", device);
    run("debugfs", "-w", "-R", "ssv state 2", device);
    expect(await failureOf(node.stage())).to.match(/^FAILED_PRECONDITION: .*run it by hand/);
    expect(readFileSync("/proc/self/mountinfo", "utf8")).not.to.include(node.staging);
  });

  it("says what a host without block devices lacks, and that a disk is not attached", async () => {
    const socket = join(node.folder, "nbd.sock");
    const server: Server = createServer().listen(socket);
    symlinkSync(socket, join(node.devices.folder, "disk-1"));
    try {
      expect(await failureOf(node.stage())).to.match(/^FAILED_PRECONDITION: .*NBD socket.*nbdfuse/);
    } finally {
      server.close();
    }
    node.volume = { volumeId: "v", publishContext: { diskCid: "disk-2" } };
    expect(await failureOf(node.stage())).to.match(/^UNAVAILABLE: the disk is not attached to this node/);
    node.volume = { volumeId: "v", publishContext: { diskCid: "../etc" } };
    expect(await failureOf(node.stage())).to.match(/^INVALID_ARGUMENT: publish_context/);
  });

  it("publishes at a second path only for several writers of one node, and refuses other arguments", async () => {
    node.devices.attach("disk-1", SIZE_BYTES);
    await node.stage();
    await node.publish();
    const second = { targetPath: `${node.target}-2` };
    for (const mode of ["SINGLE_NODE_WRITER", "SINGLE_NODE_SINGLE_WRITER"])
      expect(await failureOf(node.publish(mounted({}, mode), second))).to.match(
        /^FAILED_PRECONDITION: .*is mounted at/,
      );
    await node.publish(mounted({}, "SINGLE_NODE_MULTI_WRITER"), { ...second, readonly: true });
    expect(() => writeFileSync(join(second.targetPath, "x"), "")).to.throw("EROFS");
    expect(await failureOf(node.publish(mounted({}, "SINGLE_NODE_MULTI_WRITER"), second))).to.match(/^ALREADY_EXISTS/);
    expect(await failureOf(node.stage(mounted({}, "SINGLE_NODE_READER_ONLY")))).to.match(/^ALREADY_EXISTS/);
    await node.unpublish();
    await node.unpublish(second.targetPath);
    await node.unstage();
    expect(await failureOf(node.publish())).to.match(/^FAILED_PRECONDITION: nothing is mounted at the staging path/);
  });

  it("publishes the device of a block volume, and never for reading when the disk allows writes", async () => {
    node.devices.attach("disk-1", SIZE_BYTES);
    expect(await failureOf(node.publish(BLOCK, { readonly: true }))).to.match(/^FAILED_PRECONDITION/);
    for (const _ of [1, 2]) await node.stage(BLOCK);
    for (const _ of [1, 2]) await node.publish(BLOCK);
    expect(statSync(node.target).isBlockDevice()).to.equal(true);
    expect(await failureOf(node.publish(BLOCK, { targetPath: `${node.target}-2` }))).to.match(/^FAILED_PRECONDITION/);
    const stats = await node.calls.nodeGetVolumeStats({ volumeId: "v", volumePath: node.target });
    expect(stats.usage).to.deep.equal([{ available: 0, total: SIZE_BYTES, used: 0, unit: "BYTES" }]);
    for (const _ of [1, 2]) await node.unpublish();
    expect(existsSync(node.target)).to.equal(false);
    await node.unstage();
  });

  it("never removes the content of a target path that is not mounted", async () => {
    mkdirSync(node.target);
    writeFileSync(join(node.target, "data"), "kept");
    await failureOf(node.unpublish());
    expect(readFileSync(join(node.target, "data"), "utf8")).to.equal("kept");
    rmSync(node.target, { recursive: true });
  });

  it("gives all files to the group of the volume once", async () => {
    node.devices.attach("disk-1", SIZE_BYTES);
    await node.stage();
    mkdirSync(join(node.staging, "folder"));
    writeFileSync(join(node.staging, "folder/file"), "", { mode: 0o600 });
    symlinkSync("/etc/passwd", join(node.staging, "link"));
    const passwd = statSync("/etc/passwd");
    await node.stage(mounted({ volumeMountGroup: "4711" }));
    const access = (path: string) => [statSync(path).gid, statSync(path).mode & 0o7777];
    expect(access(join(node.staging, "folder/file"))).to.deep.equal([4711, 0o660]);
    expect(access(join(node.staging, "folder"))).to.deep.equal([4711, 0o2775]);
    expect(access(node.staging)).to.deep.equal([4711, 0o2775]);
    expect(statSync("/etc/passwd")).to.include({ gid: passwd.gid, mode: passwd.mode });
    writeFileSync(join(node.staging, "own"), "", { mode: 0o600 });
    run("chgrp", "0", join(node.staging, "own"));
    await node.stage(mounted({ volumeMountGroup: "4711" }));
    expect(statSync(join(node.staging, "own")).gid, "the second mount walks nothing").to.equal(0);
    await node.publish(mounted({ volumeMountGroup: "4712" }));
    expect(statSync(join(node.target, "own")).gid, "the group of a pod that shares it").to.equal(4712);
    await node.unpublish();
    await node.unstage();
  });

  it("grows the file system at the next stage, and fails no mount where it cannot grow before", async () => {
    node.devices.attach("disk-1", SIZE_BYTES);
    await node.stage();
    await node.publish();
    const total = async () => (await node.stats()).usage[0]?.total ?? 0;
    const before = await total();
    const grow = () =>
      node.calls.nodeExpandVolume({
        volumeId: "v",
        volumePath: node.target,
        capacityRange: { requiredBytes: 2 * SIZE_BYTES, limitBytes: 0 },
      });
    expect(await failureOf(grow())).to.match(/^UNAVAILABLE: .*not yet/);
    writeFileSync(join(node.target, "data"), "kept");
    node.devices.grow("disk-1", 2 * SIZE_BYTES);
    for (const _ of [1, 2]) expect(await grow()).to.deep.equal({ capacityBytes: 2 * SIZE_BYTES });
    await node.unpublish();
    await node.unstage();
    await node.stage();
    await node.publish();
    expect(await total()).to.be.above(1.8 * before);
    expect(readFileSync(join(node.target, "data"), "utf8")).to.equal("kept");
    expect(await grow()).to.deep.equal({ capacityBytes: 2 * SIZE_BYTES });
  });

  it("offers no controller, stops cleanly, and serves again on the socket that it left", async () => {
    expect(await failureOf(node.driver.clients.controller.listVolumes({}))).to.match(/^UNIMPLEMENTED/);
    expect(await node.calls.nodeGetInfo({})).to.deep.include({
      nodeId: "i-1",
      accessibleTopology: { segments: { "csi.diskmesh/az": "z1", "csi.diskmesh/instance": "i-1" } },
    });
    await node.driver.killAndStart();
    expect(await node.driver.clients.identity.probe({})).to.deep.equal({ ready: true });
    expect(await node.driver.stop()).to.equal(0);
  });
});
