import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type DriverProcess, failureOf } from "@diskmesh/csi-driver/testing";
import { eventually, leaveToVerify, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { devicesReady } from "../mesh/steps.js";
import { CsiMesh, DEVICE_BYTES, needBlockDevices } from "./csi-mesh.js";

const MAX_VOLUMES = 3;
/** Longer than most calls take. */
const KILLED_WITHIN_MS = 300;
const CAPABILITY = {
  accessType: { $case: "mount" as const, value: { fsType: "ext4" } },
  accessMode: { mode: "SINGLE_NODE_MULTI_WRITER" as const },
};

/** The calls of a kubelet and an attacher for one volume on one node. */
class NodeOrder {
  readonly folder = temporaryFolder();
  readonly staging = join(this.folder, "globalmount");
  readonly target = join(this.folder, "mount");
  publishContext: Record<string, string> = {};

  constructor(
    readonly driver: DriverProcess,
    readonly nodeId: string,
    readonly volumeId: string,
  ) {
    mkdirSync(this.staging);
  }

  async attach(): Promise<void> {
    const { volumeId, nodeId } = this;
    const request = { volumeId, nodeId, volumeCapability: CAPABILITY };
    const { publishContext } = await this.driver.clients.controller.controllerPublishVolume(request);
    this.publishContext = publishContext;
  }

  async stage(): Promise<void> {
    const { volumeId, publishContext, staging } = this;
    const request = { volumeId, publishContext, stagingTargetPath: staging, volumeCapability: CAPABILITY };
    await this.driver.clients.node.nodeStageVolume(request);
  }

  async publish(): Promise<void> {
    const { volumeId, publishContext, staging, target } = this;
    const paths = { stagingTargetPath: staging, targetPath: target };
    await this.driver.clients.node.nodePublishVolume({
      volumeId,
      publishContext,
      ...paths,
      volumeCapability: CAPABILITY,
    });
  }

  async unpublish(): Promise<void> {
    await this.driver.clients.node.nodeUnpublishVolume({ volumeId: this.volumeId, targetPath: this.target });
  }

  async unstage(): Promise<void> {
    await this.driver.clients.node.nodeUnstageVolume({ volumeId: this.volumeId, stagingTargetPath: this.staging });
  }

  async detach(): Promise<void> {
    const { volumeId, nodeId } = this;
    await this.driver.clients.controller.controllerUnpublishVolume({ volumeId, nodeId });
  }

  get up() {
    return [() => this.attach(), () => this.stage(), () => this.publish()];
  }

  get down() {
    return [() => this.unpublish(), () => this.unstage(), () => this.detach()];
  }
}

async function inOrder(calls: readonly (() => Promise<void>)[], times = 1): Promise<void> {
  for (const call of calls) for (let time = 0; time < times; time++) await call();
}

describe("a volume's life in Kubernetes's order", () => {
  let csi: CsiMesh;
  let driver: DriverProcess;
  let nodes: readonly string[];
  let volumes = 0;
  const orders: NodeOrder[] = [];

  before(async function () {
    needBlockDevices(this);
    csi = await CsiMesh.start({ hosts: 2, devicesPerHost: 8, maxVolumesPerNode: MAX_VOLUMES });
    [driver] = csi.drivers as [DriverProcess];
    nodes = csi.nodeIds;
  });
  after(async () => {
    for (const { target, staging } of orders)
      for (const path of [target, staging]) spawnSync("umount", ["--lazy", path]);
    await csi?.[Symbol.asyncDispose]();
  });
  afterEach(async () => expect(await csi.attachments()).to.deep.equal({}));

  const create = async (name = `pvc-${++volumes}`, more: object = {}): Promise<string> => {
    const { volume } = await driver.clients.controller.createVolume({
      name,
      volumeCapabilities: [CAPABILITY],
      parameters: { diskType: "default", "csi.storage.k8s.io/pvc/name": "data" },
      capacityRange: { requiredBytes: DEVICE_BYTES, limitBytes: 0 },
      ...more,
    });
    return volume?.volumeId ?? "";
  };
  const remove = (volumeId: string) => driver.clients.controller.deleteVolume({ volumeId });
  const orderOn = (node: number, volumeId: string): NodeOrder => {
    const order = new NodeOrder(csi.drivers[node] as DriverProcess, nodes[node] ?? "", volumeId);
    orders.push(order);
    return order;
  };

  it("keeps what was written when it moves to another node, with every call repeated and a late detach", async () => {
    const volumeId = await create("pvc-a");
    expect(await create("pvc-a")).to.equal(volumeId);
    const first = orderOn(0, volumeId);
    await inOrder(first.up, 2);
    writeFileSync(join(first.target, "data"), "kept");
    expect(await failureOf(remove(volumeId))).to.match(/^FAILED_PRECONDITION: .*detach it first/);
    await inOrder(first.down, 2);
    const second = orderOn(1, volumeId);
    await inOrder(second.up, 2);
    expect(readFileSync(join(second.target, "data"), "utf8")).to.equal("kept");
    await first.detach();
    expect(await csi.attachments()).to.deep.equal({ [volumeId]: nodes[1] });
    const { entries } = await driver.clients.controller.listVolumes({});
    expect(entries.map(({ volume, status }) => [volume?.volumeId, status?.publishedNodeIds])).to.deep.equal([
      [volumeId, [nodes[1]]],
    ]);
    await inOrder(second.down, 2);
    for (const _ of [1, 2]) await remove(volumeId);
    await first.detach();
  });

  it("goes on elsewhere after a fence, and the lost node then unpublishes and unstages", async () => {
    const volumeId = await create();
    const [lost, next] = [orderOn(0, volumeId), orderOn(1, volumeId)];
    await inOrder(lost.up);
    writeFileSync(join(lost.target, "data"), "kept");
    spawnSync("sync", ["--file-system", lost.target]);
    await csi.mesh.clients.registry.fenceHost({ hostId: "host-1", reason: "lost" });
    await lost.detach();
    await inOrder(next.up);
    expect(readFileSync(join(next.target, "data"), "utf8")).to.equal("kept");
    const late = spawnSync("sh", ["-c", 'echo late > "$0" && sync "$0"', join(lost.target, "data")]);
    expect(late.status).not.to.equal(0);
    await inOrder(lost.down, 2);
    expect(readFileSync(join(next.target, "data"), "utf8")).to.equal("kept");
    await inOrder(next.down);
    await remove(volumeId);
  });

  it("is on one node at a time, and the refusal names the node", async () => {
    const volumeId = await create();
    const [holder, other] = [orderOn(0, volumeId), orderOn(1, volumeId)];
    await holder.attach();
    expect(await failureOf(other.attach())).to.match(new RegExp(`^FAILED_PRECONDITION: .*node ${nodes[0]}`));
    await other.detach();
    expect(await csi.attachments()).to.deep.equal({ [volumeId]: nodes[0] });
    await holder.detach();
    await remove(volumeId);
  });

  it("is refused with another size or zone, on an unknown node, and above the limit of a node", async () => {
    const { controller } = driver.clients;
    const volumeId = await create("pvc-b");
    const larger = { capacityRange: { requiredBytes: 2 * DEVICE_BYTES, limitBytes: 0 } };
    const elsewhere = { accessibilityRequirements: { requisite: [{ segments: { "csi.diskmesh/az": "z2" } }] } };
    for (const other of [larger, elsewhere])
      expect(await failureOf(create("pvc-b", other))).to.match(/^ALREADY_EXISTS/);
    expect(await failureOf(create("pvc-c", { parameters: { diskType: "none" } }))).to.match(/^INVALID_ARGUMENT/);
    expect(await failureOf(create("pvc-c", { capacityRange: { requiredBytes: 10 ** 12, limitBytes: 0 } }))).to.match(
      /^RESOURCE_EXHAUSTED/,
    );
    const unknown = { volumeId, nodeId: "no-node", volumeCapability: CAPABILITY };
    expect(await failureOf(controller.controllerPublishVolume(unknown))).to.match(/^NOT_FOUND/);
    const more = await Promise.all(Array.from({ length: MAX_VOLUMES + 1 }, () => create()));
    const outcomes = await Promise.allSettled(more.map((each) => orderOn(0, each).attach()));
    const refused = outcomes.filter(({ status }) => status === "rejected");
    expect(refused).to.have.length(1);
    expect(await failureOf(orderOn(0, volumeId).attach())).to.match(/^RESOURCE_EXHAUSTED: .*maxVolumesPerNode/);
    await Promise.all(more.map((each) => orderOn(0, each).detach()));
    await Promise.all([volumeId, ...more].map(remove));
  });

  it("is listed in pages, and an unknown token is ABORTED", async () => {
    const { controller } = driver.clients;
    const made = await Promise.all([create(), create(), create()]);
    const first = await controller.listVolumes({ maxEntries: 2 });
    const second = await controller.listVolumes({ maxEntries: 2, startingToken: first.nextToken });
    const listed = [...first.entries, ...second.entries].map(({ volume }) => volume?.volumeId);
    expect(listed).to.deep.equal([...made].sort());
    expect(await failureOf(controller.listVolumes({ startingToken: "wrong" }))).to.match(/^ABORTED/);
    await Promise.all(made.map(remove));
  });

  it("grows while it is not published, takes other limits, and says what space is left", async () => {
    const { controller } = driver.clients;
    const asked = { parameters: { diskType: "default" } };
    await devicesReady(csi.mesh);
    const before = await controller.getCapacity(asked);
    const volumeId = await create(undefined, { mutableParameters: { readIops: "500" } });
    const order = orderOn(0, volumeId);
    const capacityRange = { requiredBytes: 2 * DEVICE_BYTES, limitBytes: 0 };
    const expanded = { capacityBytes: 2 * DEVICE_BYTES, nodeExpansionRequired: true };
    await order.attach();
    expect(await failureOf(controller.controllerExpandVolume({ volumeId, capacityRange }))).to.match(
      /^FAILED_PRECONDITION: .*unpublish it/,
    );
    await order.detach();
    for (const _ of [1, 2])
      expect(await controller.controllerExpandVolume({ volumeId, capacityRange })).to.deep.equal(expanded);
    for (const _ of [1, 2])
      await controller.controllerModifyVolume({ volumeId, mutableParameters: { writeIops: "100" } });
    const { disk } = await csi.mesh.clients.disks.getDisk({ diskName: volumeId });
    expect(disk?.limits).to.include({ readIops: 500, writeIops: 100 });
    const after = await controller.getCapacity(asked);
    expect(before.availableCapacity - after.availableCapacity).to.equal(2 * DEVICE_BYTES);
    await remove(volumeId);
  });

  for (const killed of ["the driver", "director", "disk-registry", "cpi-dispatcher"])
    it(`goes on after ${killed} was killed in the middle of any call`, async function () {
      if (killed !== "the driver") leaveToVerify(this);
      this.timeout(900_000);
      const order = orderOn(0, await create(`pvc-${killed}`));
      const { volumeId, staging, target } = order;
      const calls = [() => create(`pvc-${killed}`).then(() => {}), ...order.up, ...order.down, () => remove(volumeId)];
      for (const call of calls) {
        const interrupted = call().catch(() => {});
        await delay(Math.random() * KILLED_WITHIN_MS);
        await killAndStart(killed);
        await interrupted;
        await eventually(() => call().then(() => {}), { timeoutMs: 120_000 });
        if (call === calls[3]) writeFileSync(join(target, "data"), "written");
        if (call === calls[4]) expect(readFileSync(join(staging, "data"), "utf8")).to.equal("written");
        if (call === calls[5]) checkFileSystem(order);
      }
    });

  async function killAndStart(name: string): Promise<void> {
    if (name === "the driver") return driver.killAndStart();
    const process = csi.mesh.process(name);
    await process.kill();
    await process.start();
  }

  /** Checks that the file system of the attached disk, which is not mounted, is clean. */
  function checkFileSystem({ publishContext }: NodeOrder): void {
    const device = realpathSync(csi.mesh.dynamicDisk("host-1", publishContext.diskCid ?? ""));
    const { status, stdout } = spawnSync("fsck.ext4", ["-n", device], { encoding: "utf8" });
    expect(status, stdout).to.equal(0);
  }
});
