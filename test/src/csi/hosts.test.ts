import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { failureOf } from "@diskmesh/csi-driver/testing";
import { expect } from "chai";
import { CsiMesh, needBlockDevices } from "./csi-mesh.js";
import { CAPABILITY, inOrder } from "./node-order.js";

const HOSTS = 3;
const DEVICES_PER_HOST = 2;

describe("volumes of nodes that are hosts, without a deployment", () => {
  let csi: CsiMesh;

  before(async function () {
    needBlockDevices(this);
    const sizes = { hosts: HOSTS, devicesPerHost: DEVICES_PER_HOST, maxVolumesPerNode: DEVICES_PER_HOST };
    csi = await CsiMesh.start({ nodes: "hosts", ...sizes });
  });
  after(() => csi?.[Symbol.asyncDispose]());
  afterEach(async () => {
    expect(await csi.attachments()).to.deep.equal({});
    await csi.ready();
  });

  it("lie on the node of their pod, and elsewhere in its AZ when that has no room", async () => {
    expect((await csi.drivers[1]?.clients.node.nodeGetInfo({}))?.nodeId).to.equal("host/host-2");
    expect(await csi.topologyOf(1)).to.deep.equal({
      segments: { "csi.diskmesh/az": "z1", "csi.diskmesh/host": "host-2" },
    });
    const hosts: string[] = [];
    const volumes: string[] = [];
    for (const [index, node] of [1, 2, 0, 2, 0].entries()) {
      volumes.push(await csi.createFor(node, `pvc-${index}`));
      hosts.push(await csi.hostOf(volumes.at(-1) ?? ""));
    }
    expect(hosts).to.deep.equal(["host-2", "host-3", "host-1", "host-3", "host-1"]);
    const elsewhere = await csi.createFor(2, "pvc-elsewhere");
    expect(await csi.hostOf(elsewhere)).to.equal("host-2");
    expect(await failureOf(csi.createFor(0, "pvc-none"))).to.match(/^RESOURCE_EXHAUSTED/);
    for (const volumeId of [...volumes, elsewhere]) await csi.remove(volumeId);
  });

  it("are accessible in their whole AZ, move to another host with their bytes, and a late detach changes nothing", async () => {
    const volumeId = await csi.createFor(0, "pvc-moves");
    const { entries } = (await csi.drivers[0]?.clients.controller.listVolumes({})) ?? { entries: [] };
    expect(entries.map(({ volume }) => volume?.accessibleTopology)).to.deep.equal([
      [{ segments: { "csi.diskmesh/az": "z1" } }],
    ]);
    const [first, second] = [csi.orderOn(0, volumeId), csi.orderOn(1, volumeId)];
    await inOrder(first.up, 2);
    writeFileSync(join(first.target, "data"), "kept");
    expect(await failureOf(second.attach())).to.match(/^FAILED_PRECONDITION: .*node host\/host-1/);
    await inOrder(first.down, 2);
    await inOrder(second.up, 2);
    expect(readFileSync(join(second.target, "data"), "utf8")).to.equal("kept");
    await first.detach();
    expect(await csi.attachments()).to.deep.equal({ [volumeId]: "host/host-2" });
    await inOrder(second.down, 2);
    await csi.remove(volumeId);
  });

  it("are created although the orchestrator knows a node that the disk-registry forgot", async () => {
    const gone = { segments: { "csi.diskmesh/az": "z1", "csi.diskmesh/host": "host-99" } };
    const volumeId = await csi.create("pvc-gone", { accessibilityRequirements: { requisite: [gone], preferred: [] } });
    expect(volumeId).to.match(/^csi-/);
    await csi.remove(volumeId);
    for (const host of ["a b", "../host-1", "a/b/host-1"]) {
      const wrong = { segments: { "csi.diskmesh/az": "z1", "csi.diskmesh/host": host } };
      const required = { accessibilityRequirements: { requisite: [wrong], preferred: [wrong] } };
      expect(await failureOf(csi.create("pvc-wrong", required)), host).to.match(/^INVALID_ARGUMENT: .*host_id/);
    }
  });

  it("are refused on unknown nodes, and with the disk type of a deployment", async () => {
    const volumeId = await csi.create("pvc-refused");
    const controller = csi.drivers[0]?.clients.controller;
    for (const nodeId of ["host/host-99", "host/a/b", "no-node"]) {
      const request = { volumeId, nodeId, volumeCapability: CAPABILITY };
      expect(await failureOf(controller?.controllerPublishVolume(request) ?? Promise.resolve()), nodeId).to.match(
        /^NOT_FOUND/,
      );
    }
    const typed = { parameters: { diskType: "default" } };
    expect(await failureOf(csi.create("pvc-typed", typed))).to.match(/^INVALID_ARGUMENT: .*there are pool/);
    await csi.remove(volumeId);
  });
});
