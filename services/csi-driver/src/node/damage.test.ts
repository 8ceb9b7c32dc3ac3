import { spawn, spawnSync } from "node:child_process";
import { closeSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually, mountNamespace, skipBecause, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { failureOf, needLoopDevices } from "../testing/index.js";
import { run } from "../testing/run.js";
import { mounted, TestNode } from "../testing/test-node.js";
import { DeviceUses } from "./device-uses.js";

const SIZE_BYTES = 32 * MIB_BYTES;
const FIRST = { diskCid: "disk-1", attachmentId: "a-1", isFirstAttachment: "true" };
const BLOCK = {
  accessType: { $case: "block" as const, value: {} },
  accessMode: { mode: "SINGLE_NODE_WRITER" as const },
};

describe("a volume that somebody damaged", () => {
  let node: TestNode;

  before(function () {
    needLoopDevices(this);
  });

  beforeEach(async () => {
    node = await TestNode.start();
    node.devices.attach("disk-1", SIZE_BYTES);
  });

  afterEach(() => node[Symbol.asyncDispose]());

  function write(offset: number, bytes: Buffer): void {
    const file = openSync(node.devices.deviceOf("disk-1"), "r+");
    writeSync(file, bytes, 0, bytes.length, offset);
    closeSync(file);
  }

  const zeroSuperBlock = () => write(1024, Buffer.alloc(1024));

  async function refused(): Promise<void> {
    const before = node.contentHash();
    expect(await failureOf(node.stage())).to.match(/^FAILED_PRECONDITION: .*data at byte \d+: nothing was changed/);
    expect(node.contentHash()).to.equal(before);
  }

  const fillings: Record<string, () => void> = {
    "an ext4 without its first super block": () => {
      run("mkfs.ext4", "-q", node.devices.deviceOf("disk-1"));
      zeroSuperBlock();
    },
    "bytes without a signature": () => write(0, Buffer.alloc(64 * 1024, "random")),
    "bytes in its last block": () => write(SIZE_BYTES - 1, Buffer.from("x")),
  };
  for (const [what, fill] of Object.entries(fillings))
    it(`is not formatted when it holds ${what}`, async () => {
      fill();
      await refused();
    });

  it("is not formatted again during its first attachment, after a kill of the driver either", async () => {
    node.volume.publishContext = FIRST;
    await node.stage();
    await node.unstage();
    zeroSuperBlock();
    await node.driver.killAndStart();
    await refused();
  });

  it("is not formatted after a pod had it as a block volume", async () => {
    node.volume.publishContext = FIRST;
    await node.stage(BLOCK);
    write(MIB_BYTES, Buffer.from("a database"));
    await refused();
  });

  it("is formatted again when the first mkfs was interrupted, and only during that attachment", async () => {
    const uses = await DeviceUses.open(node.stateFolder);
    await uses.put("v", "a-1", "formatting");
    write(MIB_BYTES, Buffer.from("a part of a file system"));
    node.volume.publishContext = { ...FIRST, attachmentId: "a-2", isFirstAttachment: "false" };
    await refused();
    node.volume.publishContext = FIRST;
    await node.stage();
  });

  it("takes no pod while its file system has stopped, and is checked and mounted again for the next one", async () => {
    await node.stage();
    await node.publish();
    writeFileSync(join(node.target, "data"), "kept", { flush: true });
    stopFileSystem(node.devices.deviceOf("disk-1"));
    expect(await failureOf(node.stats())).to.match(/takes no writes/);
    expect(await failureOf(node.publish())).to.match(/takes no writes/);
    await node.unpublish();
    await node.publish();
    writeFileSync(join(node.target, "more"), "kept");
    expect(readFileSync(join(node.target, "data"), "utf8")).to.equal("kept");
    expect((await node.stats()).usage).to.have.length(2);
  });

  it("is mounted without set-user-ID programs and device nodes", async () => {
    await node.stage();
    await node.publish();
    for (const path of [node.staging, node.target])
      expect(run("findmnt", "--noheadings", "--output", "OPTIONS", path)).to.match(/nosuid,nodev/);
  });

  it("is refused outside of the orchestrator's folders", async () => {
    await node.stage();
    const outside = "/mnt/diskmesh-outside";
    for (const call of [
      node.publish(mounted(), { targetPath: outside }),
      node.publish(mounted(), { targetPath: `${node.folder}/../outside` }),
      node.unpublish(outside),
      node.calls.nodeUnstageVolume({ volumeId: "v", stagingTargetPath: outside }),
    ])
      expect(await failureOf(call)).to.match(
        /^INVALID_ARGUMENT: (target_path|staging_target_path) .*(mountFolders|`\.\.`)/,
      );
  });
});

describe("a volume that another mount namespace has, too", () => {
  let node: TestNode;

  before(function () {
    needLoopDevices(this);
    skipWithout(this, "unshare");
    if (spawnSync("unshare", ["--mount", "true"]).status !== 0) skipBecause(this, "it may not make mount namespaces");
  });

  beforeEach(async () => {
    node = await TestNode.start();
  });

  afterEach(() => node[Symbol.asyncDispose]());

  it("stays staged until that one has ended, and nothing that was written is lost", async () => {
    node.devices.attach("disk-1", SIZE_BYTES);
    await node.stage();
    await node.publish();
    const [command = "", ...args] = [...mountNamespace({ keep: node.folder }), "sleep", "infinity"];
    const other = spawn(command, args, { stdio: "ignore" });
    const ended = new Promise((resolve) => other.once("exit", resolve));
    try {
      await eventually(() => {
        if (!readFileSync(`/proc/${other.pid}/comm`, "utf8").startsWith("sleep")) throw new Error("not yet");
      });
      for (let file = 0; file < 200; file++) writeFileSync(join(node.target, `${file}`), "kept".repeat(1_000));
      await node.unpublish();
      for (const _ of [1, 2])
        expect(await failureOf(node.unstage())).to.match(
          new RegExp(`^FAILED_PRECONDITION: .*mount namespace of process ${other.pid} \\("sleep"\\)`),
        );
      expect(readFileSync(join(node.staging, "0"), "utf8")).to.have.length(4_000);
    } finally {
      other.kill("SIGKILL");
      await ended;
    }
    await node.unstage();
    const copy = `${node.devices.fileOf("disk-1")}.copy`;
    run("cp", node.devices.fileOf("disk-1"), copy);
    run("fsck.ext4", "-fn", copy);
    expect(run("debugfs", "-R", "cat 199", copy)).to.have.length(4_000);
    rmSync(copy);
  });
});

/** Has the kernel stop the file system as after an error of its device. */
function stopFileSystem(device: string): void {
  writeFileSync(`/sys/fs/ext4/${device.replace("/dev/", "")}/trigger_fs_error`, "test");
}
