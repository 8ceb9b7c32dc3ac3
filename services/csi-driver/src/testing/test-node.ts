import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "@diskmesh/testkit";
import { DriverProcess } from "./driver-process.js";
import { LoopDevices } from "./loop-devices.js";
import { run } from "./run.js";

/** Returns the capability of a mounted volume, as the protos have it. */
export function mounted(value: object = {}, mode = "SINGLE_NODE_WRITER") {
  return { accessType: { $case: "mount" as const, value }, accessMode: { mode: mode as "SINGLE_NODE_WRITER" } };
}

/** A node plugin whose agent's disks are loop devices, and the calls of a kubelet for one volume. */
export class TestNode implements AsyncDisposable {
  readonly devices = new LoopDevices();
  readonly folder = temporaryFolder();
  readonly staging = join(this.folder, "staging");
  readonly target = join(this.folder, "target");
  readonly stateFolder = join(this.folder, "state");
  volume = { volumeId: "v", publishContext: { diskCid: "disk-1" } as Record<string, string> };
  #driver: DriverProcess | undefined;

  static async start(): Promise<TestNode> {
    const node = new TestNode();
    mkdirSync(node.staging);
    const config = {
      instanceId: "i-1",
      az: "z1",
      dynamicDisksFolder: node.devices.folder,
      mountFolders: [node.folder],
      stateFolder: node.stateFolder,
    };
    node.#driver = await DriverProcess.start({ node: config }, "node");
    return node;
  }

  get driver(): DriverProcess {
    if (this.#driver === undefined) throw new Error("the node has not started");
    return this.#driver;
  }

  get calls() {
    return this.driver.clients.node;
  }

  stage(volumeCapability: object = mounted()) {
    return this.calls.nodeStageVolume({ ...this.volume, stagingTargetPath: this.staging, volumeCapability });
  }

  unstage() {
    return this.calls.nodeUnstageVolume({ volumeId: this.volume.volumeId, stagingTargetPath: this.staging });
  }

  publish(volumeCapability: object = mounted(), more: object = {}) {
    const paths = { stagingTargetPath: this.staging, targetPath: this.target };
    return this.calls.nodePublishVolume({ ...this.volume, ...paths, volumeCapability, ...more });
  }

  unpublish(targetPath = this.target) {
    return this.calls.nodeUnpublishVolume({ volumeId: this.volume.volumeId, targetPath });
  }

  stats() {
    return this.calls.nodeGetVolumeStats({ volumeId: this.volume.volumeId, volumePath: this.target });
  }

  /** Returns the hash of what the disk holds. */
  contentHash(): string {
    run("sync", this.devices.deviceOf("disk-1"));
    return createHash("sha256")
      .update(readFileSync(this.devices.fileOf("disk-1")))
      .digest("hex");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const path of [this.target, `${this.target}-2`, this.staging]) spawnSync("umount", ["--all-targets", path]);
    await this.#driver?.[Symbol.asyncDispose]();
    this.devices[Symbol.dispose]();
  }
}
