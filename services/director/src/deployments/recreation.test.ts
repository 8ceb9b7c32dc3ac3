import { PersistentDiskState, TaskOutputType, TaskState, VmState } from "@diskmesh/api/director";
import { InvalidStateError } from "@diskmesh/domain";
import { stemcellFile } from "@diskmesh/testkit";
import { expect } from "chai";
import { decodeEvent } from "../tasks/task-event.js";
import { TestDirector } from "../testing/test-director.js";

const CLOUD = `
azs: [{name: z1, cloud_properties: {zone: a}}]
vm_types: [{name: small, cloud_properties: {ram: 1}}, {name: large, cloud_properties: {ram: 2}}]
disk_types: [{name: fast, disk_size: 1024}]
networks: [{name: any, type: dynamic}, {name: private, type: manual, subnets: [{range: 10.0.0.0/28, gateway: 10.0.0.1}]}]
`;
const STEMCELLS = 'stemcells: [{alias: a, name: ubuntu, version: "latest"}]';

/** VMs that a deploy must recreate, because their definition changed or the VMs are missing. */
describe("deploys that recreate VMs", () => {
  let director: TestDirector;

  before(async () => {
    const agents = { requestTimeoutMs: 2_000, attachTimeoutMs: 5_000, detachTimeoutMs: 500, lostAfterMs: 5_000 };
    director = await TestDirector.start({ agents: { readyTimeoutMs: 6_000 }, tuning: { agents } });
  });
  after(() => director?.stop());
  beforeEach(async () => {
    for (const agent of director.agents) {
      await agent.stop();
      await agent.start();
      agent.calls.length = 0;
      agent.failures.length = 0;
    }
    await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    await cloud(CLOUD);
    director.cpi.apiVersions.clear();
  });

  const cloud = (content: string) => director.configs.updateConfig({ type: "cloud", content });
  const manifest = (group = "vm_type: small", instances = 1, more = "") =>
    `name: web\n${more}\ninstance_groups:\n- {name: db, instances: ${instances}, azs: [z1], persistent_disk: 64, networks: [{name: private}], ${group}}\n`;
  const deploy = async (text: string) => {
    director.cpi.calls.length = 0;
    return (await director.deployments.deploy({ manifest: text, wait: true })).task;
  };
  const deployed = async (text: string) => {
    const task = await deploy(text);
    expect(task?.result).to.equal("/deployments/web");
    return task?.taskId ?? 0;
  };
  const instances = async () => (await director.deployments.listInstances({ deployment: "web" })).instances;
  const disks = async () => {
    const all = { deployment: "web" };
    const listed = await director.deployments.listPersistentDisks(all);
    return listed.disks.filter((disk) => disk.orphanTime === undefined);
  };
  const calls = () => director.cpi.calls.map((call) => call.split(" ")[0]).filter((name) => name !== "info");
  const events = async (taskId: number): Promise<string[]> => {
    const { lines } = await director.tasks.getTaskOutput({ taskId, type: TaskOutputType.EVENT });
    return lines.map(decodeEvent).map(({ stage, state, message }) => `${stage} ${state}: ${message}`);
  };
  const ANEW = ["detachDisk", "deleteVm", "createVm", "setVmMetadata", "attachDisk", "setDiskMetadata"];

  const CHANGES: [string, () => Promise<string>, RegExp][] = [
    ["another vm_type", async () => manifest("vm_type: large"), /its cloud properties have changed/],
    [
      "the vm_type itself",
      async () => {
        await cloud(CLOUD.replace("ram: 1", "ram: 3"));
        return manifest();
      },
      /its cloud properties have changed/,
    ],
    ["another env", async () => manifest("vm_type: small, env: {a: 1}"), /its env has changed/],
    [
      "a subnet that has lost its address",
      async () => {
        await cloud(CLOUD.replace("gateway: 10.0.0.1", "gateway: 10.0.0.1, reserved: [10.0.0.2-10.0.0.5]"));
        return manifest();
      },
      /its networks have changed/,
    ],
  ];
  for (const [cause, change, reason] of CHANGES) {
    it(`${cause} -> the VM is recreated with its disk; repeated -> no change`, async () => {
      await deployed(manifest());
      const [before, [disk]] = [(await instances())[0], await disks()];
      const text = await change();
      const taskId = await deployed(text);
      expect(calls()).to.deep.equal(ANEW);
      const [now] = await instances();
      expect(now).to.include({ instanceId: before?.instanceId, vmState: VmState.RUNNING });
      expect(now?.vmCid).not.to.equal(before?.vmCid);
      expect([...director.cpi.vms.keys()]).to.deep.equal([now?.vmCid]);
      expect((await disks()).map((each) => [each.diskCid, each.vmCid, each.state])).to.deep.equal([
        [disk?.diskCid, now?.vmCid, PersistentDiskState.MOUNTED],
      ]);
      expect((await events(taskId)).join("\n")).to.match(new RegExp(`Updating instance started: ${reason.source}`));
      await deployed(text);
      expect(calls()).to.deep.equal([]);
    });
  }

  it('a newer stemcell with version "latest" -> the VM is recreated from it', async () => {
    await director.upload(stemcellFile({ version: "1" }));
    const text = manifest("stemcell: a", 1, STEMCELLS);
    await deployed(text);
    await deployed(text);
    expect(calls()).to.deep.equal([]);
    await director.upload(stemcellFile({ version: "2" }));
    await deployed(text);
    expect(calls()).to.deep.equal(ANEW);
    expect((await instances())[0]?.stemcell).to.equal("ubuntu/2");
  });

  it("changed tags -> the metadata is set and the VM stays; another CPI contract version -> no change", async () => {
    await deployed(manifest());
    const before = await instances();
    await deployed(manifest("vm_type: small", 1, "tags: {team: t}"));
    expect(calls()).to.deep.equal(["setVmMetadata"]);
    expect([...director.cpi.vms.values()][0]?.metadata).to.include({ team: "t" });
    expect(await instances()).to.deep.equal(before);
    director.cpi.apiVersions.set("", 3);
    await deployed(manifest("vm_type: small", 1, "tags: {team: t}"));
    expect(calls()).to.deep.equal([]);
  });

  it("dynamic disks -> detached first, and attached again only on request", async () => {
    await deployed(manifest());
    const [instance] = await instances();
    const instanceId = instance?.instanceId ?? "";
    await director.provide("data", instanceId);
    await deployed(manifest("vm_type: large"));
    expect(calls()).to.deep.equal(["detachDisk", ...ANEW]);
    expect((await director.disks.getDynamicDisk({ diskName: "data" })).disk).to.include({ vmCid: "", instanceId: "" });
    expect((await director.provide("data", instanceId)).state).to.equal(TaskState.DONE);
    expect((await director.disks.getDynamicDisk({ diskName: "data" })).disk?.vmCid).to.equal(
      (await instances())[0]?.vmCid,
    );
  });

  it("the agent cannot release the disk -> an error, and the VM stays; later -> done", async () => {
    await deployed(manifest());
    const [before] = await instances();
    director.agent(before?.agentId ?? "").failures.push(new Error("the device is busy"));
    const failed = await deploy(manifest("vm_type: large"));
    expect(failed?.result).to.match(/the device is busy/);
    expect(calls()).to.deep.equal([]);
    expect((await instances())[0]?.vmCid).to.equal(before?.vmCid);
    await deployed(manifest("vm_type: large"));
    expect(calls()).to.deep.equal(ANEW);
  });

  it("the VM is gone -> another is created, and the events name the reason", async () => {
    await deployed(manifest());
    const [before] = await instances();
    for (const disk of director.cpi.disks.values()) disk.vmCid = "";
    director.cpi.vms.clear();
    const taskId = await deployed(manifest());
    expect((await events(taskId)).join("\n")).to.match(/Checking vms failed: its CPI says that vm `vm-.*` is gone/);
    const [now] = await instances();
    expect(now).to.include({ instanceId: before?.instanceId, vmState: VmState.RUNNING });
    expect([...director.cpi.vms.keys()]).to.deep.equal([now?.vmCid]);
    expect((await disks())[0]).to.include({ vmCid: now?.vmCid, state: PersistentDiskState.MOUNTED });
  });

  it("the CPI cannot report on the VM, or hangs -> the VM counts as existing, and the deploy continues", async () => {
    await deployed(manifest());
    const before = await instances();
    director.cpi.failNext("hasVm", new InvalidStateError("the moon is full"));
    const taskId = await deployed(manifest());
    expect((await events(taskId)).join("\n")).to.match(/Checking vms failed: CPI hasVm failed: the moon is full/);
    const gate = director.cpi.gate("hasVm", "before");
    await deployed(manifest("vm_type: small", 1, "tags: {hung: cpi}"));
    gate.release();
    expect(calls()).to.deep.equal(["setVmMetadata"]);
    expect(await instances()).to.deep.equal(before);
  });

  it("the agent does not answer -> its VM is recreated; it answers again -> no change", async () => {
    await deployed(manifest());
    const [before] = await instances();
    const agent = director.agent(before?.agentId ?? "");
    await agent.stop();
    const failed = await deploy(manifest());
    // The test CPI places the new VM on the host of the stopped agent, so the new VM's agent does not answer either.
    expect(failed?.result).to.match(/did not answer within 6000 ms/);
    expect(calls()).to.deep.equal(["detachDisk", "deleteVm", "createVm", "setVmMetadata"]);
    expect((await events(failed?.taskId ?? 0)).join("\n")).to.match(
      /Checking vms failed: agent host-\d did not answer within 5000 ms.*vm `vm-.*` counts as lost/,
    );
    await agent.start();
    await deployed(manifest());
    expect(calls()).to.deep.equal(["attachDisk", "setDiskMetadata"]);
  });

  it("without NATS -> the agents' states are unknown, and no VM is changed", async () => {
    await deployed(manifest());
    const before = await instances();
    await director.nats.kill();
    const failed = await deploy(manifest());
    await director.nats.restart();
    // Waits for the reconnect to NATS, because the next test allows no time for it.
    await director.health(60_000);
    expect(failed?.result).to.match(/was not called: this director is not connected to NATS/);
    expect(calls()).to.deep.equal([]);
    expect(await instances()).to.deep.equal(before);
  });
});
