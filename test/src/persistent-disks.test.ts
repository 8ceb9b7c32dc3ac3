import { readlinkSync } from "node:fs";
import { join } from "node:path";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { wholeFleet } from "./mesh/fleets.js";
import { addHosts, devicesReady, runTask } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";

const CONTENT = Buffer.alloc(4_096, "kept over VMs");

/** Tests persistent disks of a manifest where VMs are hosts, with real agents. */
describe("a persistent disk on hosts", () => {
  let mesh: TestMesh;

  before(async () => {
    mesh = await TestMesh.start(wholeFleet({ hosts: 2, devicesPerHost: 2, deviceSizeBytes: MIB_BYTES }));
    await addHosts(mesh);
    await devicesReady(mesh);
    const content = "azs: [{name: z1}]\n";
    await mesh.clients.configs.updateConfig({ type: "cloud", content });
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  const deploy = (group: string) => {
    const manifest = `name: db\ninstance_groups: [{name: db, azs: [z1], ${group}}]\n`;
    return runTask(`deploy ${group}`, () => mesh.clients.deployments.deploy({ manifest, wait: true }));
  };
  const instance = async () => (await mesh.clients.deployments.listInstances({ deployment: "db" })).instances[0];
  const disks = async (orphaned = false) => {
    const all = { deployment: "db", orphaned };
    return (await mesh.clients.deployments.listPersistentDisks(all)).disks;
  };
  const linkOf = async (diskCid: string) =>
    join(mesh.baseFolder((await instance())?.agentId ?? ""), "data/persistent_disks", diskCid);
  const open = async (diskCid: string) => NbdClient.connect({ socketPath: await linkOf(diskCid) });

  it("is linked to its export, moves with a recreated VM, grows, is orphaned, and is deleted", async () => {
    await deploy("instances: 1, persistent_disk: 1");
    const [disk] = await disks();
    const diskCid = disk?.diskCid ?? "";
    expect(disk).to.include({ state: "PERSISTENT_DISK_STATE_MOUNTED", vmCid: (await instance())?.vmCid });
    expect(readlinkSync(await linkOf(diskCid))).to.match(new RegExp(`/exports/${diskCid}\\.sock$`));
    let client = await open(diskCid);
    await client.write(0, CONTENT, { fua: true });
    await client.disconnect();

    const before = await instance();
    await deploy("instances: 1, persistent_disk: 1, env: {anew: true}");
    expect((await instance())?.instanceId).to.equal(before?.instanceId);
    expect((await instance())?.vmCid).not.to.equal(before?.vmCid);
    client = await open(diskCid);
    expect((await client.read(0, CONTENT.length)).equals(CONTENT)).to.equal(true);
    await client.disconnect();

    const hostId = (await instance())?.agentId ?? "";
    await mesh.process(hostId).kill();
    await mesh.process(hostId).start();
    await deploy("instances: 1, persistent_disk: 1, env: {anew: true}");
    // A restarted agent may get a new session, which ends connections of the former session.
    await eventually(async () => {
      client = await open(diskCid);
      expect((await client.read(0, CONTENT.length)).equals(CONTENT)).to.equal(true);
      await client.disconnect();
    });

    await deploy("instances: 1, persistent_disk: 2, env: {anew: true}");
    client = await open(diskCid);
    expect(client.sizeBytes).to.equal(2 * MIB_BYTES);
    expect((await client.read(0, CONTENT.length)).equals(CONTENT)).to.equal(true);
    await client.disconnect();

    const link = await linkOf(diskCid);
    await deploy("instances: 0, persistent_disk: 2");
    expect(() => readlinkSync(link)).to.throw(/ENOENT/);
    expect((await disks(true)).map((each) => each.diskCid)).to.deep.equal([diskCid]);
    await runTask("delete", () => mesh.clients.deployments.deleteOrphanedDisk({ diskCid, wait: true }));
    expect(await disks()).to.deep.equal([]);
    expect((await mesh.clients.registry.listDisks({})).disks).to.deep.equal([]);
  });
});
