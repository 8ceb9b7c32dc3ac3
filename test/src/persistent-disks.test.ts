import { readlinkSync } from "node:fs";
import { join } from "node:path";
import { HostState } from "@diskmesh/api/registry";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { wholeFleet } from "./mesh/fleets.js";
import { addHosts, devicesReady, runTask } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";

/** Longer than the tests may take. */
const NEVER_MS = 3_600_000;
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

describe("a persistent disk of a dead host", () => {
  it("is detached and orphaned with its deployment, and nobody waits for the host's agent", async () => {
    const director = { tuning: { agents: { detachTimeoutMs: NEVER_MS, detachGraceMs: NEVER_MS } } };
    const fleet = { hosts: 2, devicesPerHost: 1, deviceSizeBytes: MIB_BYTES, overrides: { director } };
    await using mesh = await TestMesh.start(wholeFleet(fleet));
    const { registry, deployments, configs } = mesh.clients;
    await addHosts(mesh);
    await devicesReady(mesh);
    await configs.updateConfig({ type: "cloud", content: "azs: [{name: z1}]\n" });
    const deploy = (more: string) => {
      const manifest = `name: db\ninstance_groups: [{name: db, azs: [z1], instances: 1${more}}]\n`;
      return runTask(`deploy${more}`, () => deployments.deploy({ manifest, wait: true }));
    };
    await deploy("");
    const hostId = (await deployments.listInstances({ deployment: "db" })).instances[0]?.agentId ?? "";
    const setState = (state: HostState) => registry.setHostState({ hostIds: [hostId], state, reason: "a test" });
    // The disk's device must be on the other host, because only that one can confirm the fence.
    await setState(HostState.CORDONED);
    await deploy(", persistent_disk: 1");
    await setState(HostState.ONLINE);
    mesh.process(hostId).signal("SIGSTOP");
    try {
      await setState(HostState.DEAD);
      const { task } = await deployments.deleteDeployment({ deployment: "db", wait: true });
      expect(task?.state, task?.result).to.equal("TASK_STATE_DONE");
      const { disks } = await deployments.listPersistentDisks({ deployment: "db", orphaned: true });
      expect(disks.map(({ vmCid }) => vmCid)).to.deep.equal([""]);
    } finally {
      mesh.process(hostId).signal("SIGCONT");
    }
  });
});
