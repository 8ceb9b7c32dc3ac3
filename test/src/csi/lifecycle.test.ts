import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { devicesWithBytes } from "@diskmesh/api/registry";
import { type DriverProcess, failureOf } from "@diskmesh/csi-driver/testing";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { devicesReady } from "../mesh/steps.js";
import { CsiMesh, needBlockDevices, VOLUME_BYTES } from "./csi-mesh.js";
import { CAPABILITY, inOrder, type NodeOrder } from "./node-order.js";

const MAX_VOLUMES = 3;

describe("a volume's life in Kubernetes's order", () => {
  let csi: CsiMesh;
  let driver: DriverProcess;
  let nodes: readonly string[];
  let volumes = 0;

  before(async function () {
    needBlockDevices(this);
    csi = await CsiMesh.start({ hosts: 2, devicesPerHost: 8, maxVolumesPerNode: MAX_VOLUMES });
    [driver] = csi.drivers as [DriverProcess];
    nodes = csi.nodeIds;
  });
  after(() => csi?.[Symbol.asyncDispose]());
  afterEach(async () => expect(await csi.attachments()).to.deep.equal({}));

  const create = (name = `pvc-${++volumes}`, more: object = {}): Promise<string> => csi.create(name, more);
  const remove = (volumeId: string) => csi.remove(volumeId);
  const orderOn = (node: number, volumeId: string): NodeOrder => csi.orderOn(node, volumeId);

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

  it("lies on the host of the instance that its pod was scheduled to", async () => {
    const own = { "csi.diskmesh/az": "z1", "csi.diskmesh/instance": nodes[1] };
    expect(await csi.topologyOf(1)).to.deep.equal({ segments: own });
    const volumes: string[] = [];
    for (const node of [1, 1, 0, 1]) volumes.push(await csi.createFor(node, `pvc-near-${volumes.length}`));
    expect(await Promise.all(volumes.map((each) => csi.hostOf(each)))).to.deep.equal([
      "host-2",
      "host-2",
      "host-1",
      "host-2",
    ]);
    const gone = { segments: { ...own, "csi.diskmesh/instance": "gone" } };
    volumes.push(await create("pvc-gone", { accessibilityRequirements: { requisite: [gone], preferred: [gone] } }));
    await Promise.all(volumes.map(remove));
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
    const larger = { capacityRange: { requiredBytes: 2 * VOLUME_BYTES, limitBytes: 0 } };
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

  it("has the size that its disk has, which is the size asked for", async () => {
    const half = VOLUME_BYTES / 2;
    const volumeId = await create("pvc-half", { capacityRange: { requiredBytes: half, limitBytes: half } });
    const { entries } = await driver.clients.controller.listVolumes({});
    expect(entries.map(({ volume }) => volume?.capacityBytes)).to.deep.equal([half]);
    await remove(volumeId);
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
    const capacityRange = { requiredBytes: 2 * VOLUME_BYTES, limitBytes: 0 };
    await order.attach();
    expect(await failureOf(controller.controllerExpandVolume({ volumeId, capacityRange }))).to.match(
      /^FAILED_PRECONDITION: .*it grows when no pod uses it/,
    );
    await order.detach();
    const expanded = await controller.controllerExpandVolume({ volumeId, capacityRange });
    expect(expanded.nodeExpansionRequired).to.equal(true);
    expect(expanded.capacityBytes).to.equal(2 * VOLUME_BYTES);
    expect(await controller.controllerExpandVolume({ volumeId, capacityRange })).to.deep.equal(expanded);
    for (const _ of [1, 2])
      await controller.controllerModifyVolume({ volumeId, mutableParameters: { writeIops: "100" } });
    const { disk } = await csi.mesh.clients.disks.getDynamicDisk({ diskName: volumeId });
    expect(disk?.limits).to.include({ readIops: 500, writeIops: 100 });
    const after = await controller.getCapacity(asked);
    const taken = before.availableCapacity - after.availableCapacity;
    // Each of its two parts takes whole slices.
    expect(taken).to.be.within(expanded.capacityBytes, expanded.capacityBytes + 2 * MIB_BYTES);
    await remove(volumeId);
  });

  it("has the trouble of its disk as its health", async () => {
    const { controller } = driver.clients;
    const volumeId = await create();
    const health = async () => (await controller.controllerGetVolumeHealth({ volumeId })).volumeHealth?.healthStatuses;
    expect(await health()).to.deep.equal([]);
    const hostId = await hostOfDisk();
    const agent = csi.mesh.process(hostId);
    await agent.kill();
    await eventually(async () => {
      const [first] = (await health()) ?? [];
      expect(first).to.include({ status: "INACCESSIBLE", reason: "DeviceInTrouble" });
      expect(first?.message).to.include(hostId);
    });
    await agent.start();
    await eventually(async () => expect(await health()).to.deep.equal([]));
    const unknown = controller.controllerGetVolumeHealth({ volumeId: "none" });
    expect(await failureOf(unknown)).to.match(/^NOT_FOUND/);
    await remove(volumeId);
  });

  it("is inaccessible while its node has a block device mounted whose process has ended", async () => {
    const { controller } = driver.clients;
    const volumeId = await create();
    const health = async () => (await controller.controllerGetVolumeHealth({ volumeId })).volumeHealth?.healthStatuses;
    const order = orderOn(0, volumeId);
    await inOrder(order.up);
    expect(await health()).to.deep.equal([]);
    const mounts = readFileSync("/proc/self/mounts", "utf8").split("\n");
    const loop = mounts.find((line) => line.includes(` ${order.staging} `))?.split(" ")[0] ?? "";
    const image = readFileSync(join("/sys/block", basename(loop), "loop/backing_file"), "utf8").trim();
    process.kill(Number(readFileSync(`${image}.pid`, "utf8")), "SIGKILL");
    await eventually(async () => {
      const [first] = (await health()) ?? [];
      const unusable = { status: "INACCESSIBLE", reason: "UnusableOnHost" };
      expect(first, JSON.stringify(first)).to.include(unusable);
      expect(first?.message).to.include(loop);
    });
    await order.unpublish();
    await order.unstage();
    await eventually(async () => expect(await health()).to.deep.equal([]));
    await order.stage();
    await order.publish();
    await inOrder(order.down);
    await remove(volumeId);
  });

  /** Returns the host with the first device of the only disk. */
  async function hostOfDisk(): Promise<string> {
    const [disk] = (await csi.mesh.clients.registry.listDisks({})).disks;
    const [deviceId = ""] = disk === undefined ? [] : devicesWithBytes(disk);
    return (await csi.mesh.device(deviceId)).hostId;
  }
});
