import { LockType, type Task, TaskState, VmState } from "@diskmesh/api/director";
import { InvalidStateError } from "@diskmesh/domain";
import { expect } from "chai";
import { TestDirector } from "../testing/test-director.js";

const HOSTS = Array.from({ length: 6 }, (_, index) => `host-${index + 1}`);
const CLOUD = `
azs: [{name: z1}]
vm_types: [{name: small, cloud_properties: {ram: 1}}, {name: large, cloud_properties: {ram: 2}}]
disk_types: [{name: fast, disk_size: 1024}]
`;

/** The concurrency of VM changes in a deploy, and their stop after a failure. */
describe("update blocks of deploys", () => {
  let director: TestDirector;

  before(async () => {
    const agents = {
      requestTimeoutMs: 5_000,
      attachTimeoutMs: 30_000,
      detachTimeoutMs: 500,
      // Generous, because agents on a busy machine answer late.
      lostAfterMs: 5_000,
    };
    const config = { agents: { readyTimeoutMs: 5_000 }, deployments: { maxConcurrentVmsPerCpi: 4 } };
    director = await TestDirector.start({ ...config, tuning: { agents } }, { hostIds: HOSTS });
    await director.configs.updateConfig({ type: "cloud", content: CLOUD });
  });
  after(() => director?.stop());
  beforeEach(async () => {
    for (const agent of director.agents) {
      await agent.stop();
      await agent.start();
      agent.failures.length = 0;
    }
    await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    director.cpi.calls.length = 0;
    director.cpi.callMs = 20;
    director.cpi.mostAtOnce.clear();
    director.cpi.awaitedAtOnce.clear();
  });

  const group = (name: string, instances: number, more = "vm_type: small") =>
    `- {name: ${name}, instances: ${instances}, azs: [z1], ${more}}\n`;
  const manifest = (update: string, ...groups: string[]) =>
    `name: web\nupdate: {${update}}\ninstance_groups:\n${groups.join("")}`;
  const deploy = (text: string) => {
    director.cpi.calls.length = 0;
    director.cpi.mostAtOnce.clear();
    return director.deployManifest(text);
  };
  const deployed = async (text: string) => {
    const { taskId, result } = await deploy(text);
    expect(result).to.equal("/deployments/web");
    return taskId;
  };
  const instances = async () => (await director.deployments.listInstances({ deployment: "web" })).instances;
  const calls = (...names: string[]) =>
    director.cpi.calls.map((call) => call.split(" ")[0] ?? "").filter((name) => names.includes(name));
  const vmCids = async () => (await instances()).map(({ vmCid }) => vmCid);

  /** Expects exactly four concurrent calls of the method. */
  const stoppedAt = async (method: "deleteVm" | "deleteDisk", work: () => Promise<{ task?: Task | undefined }>) => {
    const gates = [1, 2, 3, 4].map(() => director.cpi.gate(method, "before"));
    const working = work();
    for (const gate of gates) await gate.reached;
    for (const gate of gates) gate.release();
    const { task } = await working;
    expect(director.cpi.mostAtOnce.get(method)).to.equal(4);
    return task;
  };

  it("new instances -> created all at once, within the limit of the CPI", async () => {
    director.cpi.awaitedAtOnce.set("createVm", 4);
    await deployed(manifest("canaries: 1, max_in_flight: 1", group("db", 6)));
    expect(director.cpi.mostAtOnce.get("createVm")).to.equal(4);
    expect(new Set(await vmCids()).size).to.equal(6);
  });

  it("changed instances -> the canary alone, then max_in_flight at once", async () => {
    const update = "canaries: 1, max_in_flight: 3";
    await deployed(manifest(update, group("db", 6)));
    director.cpi.awaitedAtOnce.set("deleteVm", 3);
    const taskId = await deployed(manifest(update, group("db", 6, "vm_type: large")));
    expect(director.cpi.mostAtOnce.get("deleteVm")).to.equal(3);
    expect(calls("deleteVm", "createVm").slice(0, 2)).to.deep.equal(["deleteVm", "createVm"]);
    const [first] = await instances();
    const log = await director.eventTexts(taskId);
    const canary = log.indexOf(`Updating instance db/${first?.instanceId} (canary) finished: `);
    expect(canary).to.be.above(0);
    expect(log.slice(0, canary).filter((line) => /Updating instance .* started/.test(line))).to.have.lengthOf(1);
  });

  it("non-serial groups -> updated at the same time", async () => {
    const text = (type: string, serial: boolean) =>
      manifest(
        `canaries: 1, max_in_flight: 1, serial: ${serial}`,
        ...["a", "b", "c"].map((name) => group(name, 2, `vm_type: ${type}`)),
      );
    await deployed(text("small", true));
    await deployed(text("large", true));
    expect(director.cpi.mostAtOnce.get("deleteVm")).to.equal(1);
    director.cpi.awaitedAtOnce.set("deleteVm", 3);
    await deployed(text("small", false));
    expect(director.cpi.mostAtOnce.get("deleteVm")).to.equal(3);
  });

  it("the canary fails -> nothing else is changed; the next deploy begins with it", async () => {
    const update = "canaries: 1, max_in_flight: 3";
    await deployed(manifest(update, group("db", 4)));
    const before = await vmCids();
    director.cpi.failNext("createVm", new InvalidStateError("the moon is full"));
    const failed = await deploy(manifest(update, group("db", 4, "vm_type: large")));
    expect(failed.state).to.equal(TaskState.ERROR);
    expect(failed.result).to.match(/the moon is full/);
    expect(calls("deleteVm")).to.have.lengthOf(1);
    expect((await vmCids()).slice(1)).to.deep.equal(before.slice(1));
    await deployed(manifest(update, group("db", 4, "vm_type: large")));
    expect(calls("deleteVm", "createVm")[0]).to.equal("createVm");
  });

  it("another instance fails -> running updates finish, the rest is left; every failure is reported", async () => {
    const update = "canaries: 0, max_in_flight: 3";
    await deployed(manifest(update, group("db", 6)));
    const before = await vmCids();
    director.cpi.failNext("deleteVm", new InvalidStateError("the first is stuck"));
    director.cpi.failNext("deleteVm", new InvalidStateError("the second is stuck"));
    const failed = await deploy(manifest(update, group("db", 6, "vm_type: large")));
    expect(failed.result).to.match(/^2 instances failed: .*the first is stuck.*the second is stuck/);
    const changed = (await vmCids()).filter((vmCid, index) => vmCid !== before[index]);
    expect(changed, "the one that was under way").to.have.lengthOf(1);
    expect((await director.eventTexts(failed.taskId)).filter((line) => / failed: /.test(line)).join("\n")).to.match(
      /Updating instance db.*failed: .*stuck\n(.*\n)*.*Updating instance db.*failed: .*stuck/,
    );
    await deployed(manifest(update, group("db", 6, "vm_type: large")));
    expect([...director.cpi.vms.values()].map((vm) => vm.request.cloudProperties?.ram)).to.deep.equal(
      Array.from({ length: 6 }, () => 2),
    );
  });

  it("several new VMs stay silent -> all are reported at once; the next deploy recreates all of them first", async () => {
    const update = "canaries: 1, max_in_flight: 1";
    const silent = HOSTS.slice(0, 3);
    for (const hostId of silent) await director.agent(hostId).stop();
    const failed = await deploy(manifest(update, group("db", 6)));
    expect(failed.result).to.match(/^3 instances failed/);
    for (const hostId of silent) expect(failed.result).to.contain(hostId);
    for (const hostId of silent) await director.agent(hostId).start();
    await deployed(manifest(update, group("db", 6)));
    expect(calls("createVm", "deleteVm")).to.deep.equal([], "agents that answer at last keep their VMs");
    for (const { vmState } of await instances()) expect(vmState).to.equal(VmState.RUNNING);
  });

  it("deletions -> all at once within the limit of the CPI; failures are reported and block nothing else", async () => {
    await deployed(manifest("canaries: 1, max_in_flight: 1", group("db", 6)));
    for (const [index, { instanceId }] of (await instances()).entries())
      expect((await director.provide(`data-${index}`, instanceId)).state).to.equal(TaskState.DONE);
    const removing = () => director.deployments.deleteDeployment({ deployment: "web", wait: true });
    director.cpi.failNext("deleteVm", new InvalidStateError("the first is stuck"));
    director.cpi.failNext("deleteVm", new InvalidStateError("the second is stuck"));
    const failed = await stoppedAt("deleteVm", removing);
    expect(failed?.state).to.equal(TaskState.ERROR);
    expect(failed?.result).to.match(/^2 instances failed: .*the first is stuck.*the second is stuck/);
    expect(await instances()).to.have.lengthOf(2);
    expect(director.cpi.vms.size).to.equal(2);
    director.cpi.failNext("deleteDisk", new InvalidStateError("the disk is stuck"));
    expect((await stoppedAt("deleteDisk", removing))?.result).to.match(/the disk is stuck/);
    expect((await director.disks.listDynamicDisks({})).disks).to.have.lengthOf(1);
    expect((await removing()).task?.result).to.equal("deleted deployment `web`");
    expect((await director.disks.listDynamicDisks({})).disks).to.deep.equal([]);
    expect((await director.locks.listLocks({})).locks).to.deep.equal([]);
  });

  it("a disk requested meanwhile on an unaffected instance -> created at once", async () => {
    const update = "canaries: 1, max_in_flight: 1";
    await deployed(manifest(update, group("db", 2)));
    const [, other] = await instances();
    const gate = director.cpi.gate("deleteVm", "before");
    const { task } = await director.deployments.deploy({
      manifest: manifest(update, group("db", 2, "vm_type: large")),
    });
    await gate.reached;
    expect((await director.provide("data", other?.instanceId ?? "")).state).to.equal(TaskState.DONE);
    gate.release();
    expect((await director.ended(task?.taskId ?? 0)).state).to.equal(TaskState.DONE);
  });

  it("cancelled during several updates -> all stop, and no lock is left", async () => {
    const update = "canaries: 0, max_in_flight: 3";
    await deployed(manifest(update, group("db", 3)));
    const gates = [1, 2, 3].map(() => director.cpi.gate("deleteVm", "before"));
    const { task } = await director.deployments.deploy({
      manifest: manifest(update, group("db", 3, "vm_type: large")),
    });
    for (const gate of gates) await gate.reached;
    const { locks } = await director.locks.listLocks({});
    expect(locks.map(({ type, taskId }) => [type, taskId])).to.deep.equal(
      [LockType.DEPLOYMENT, LockType.INSTANCE, LockType.INSTANCE, LockType.INSTANCE].map((type) => [
        type,
        task?.taskId,
      ]),
    );
    await director.tasks.cancelTask({ taskId: task?.taskId ?? 0 });
    expect((await director.ended(task?.taskId ?? 0)).state).to.equal(TaskState.CANCELLED);
    expect((await director.locks.listLocks({})).locks).to.deep.equal([]);
    await deployed(manifest(update, group("db", 3, "vm_type: large")));
  });
});
