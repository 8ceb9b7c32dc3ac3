import { OrphanKind, PersistentDiskState, TaskState, VmState } from "@diskmesh/api/director";
import { InvalidArgumentError, InvalidStateError, TimeoutError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { TestDirector } from "../../testing/test-director.js";

const CLOUD = "azs: [{name: z1}, {name: z2}]\ndisk_types: [{name: fast, disk_size: 64}]\n";

describe("disks, VMs and deployments that operators take apart", () => {
  let director: TestDirector;

  before(async () => {
    const tuning = { agents: { detachTimeoutMs: 500 } };
    director = await TestDirector.start({ agents: { readyTimeoutMs: 30_000 }, tuning });
    await director.configs.updateConfig({ type: "cloud", content: CLOUD });
  });
  after(() => director?.stop());
  beforeEach(async () => {
    await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    for (const { diskCid } of await orphans()) await director.deployments.deleteOrphanedDisk({ diskCid, wait: true });
    for (const { token } of await possible()) await director.deployments.forgetPossibleOrphan({ token });
    for (const agent of director.agents) agent.calls.length = 0;
    director.cpi.lacking.clear();
    director.cpi.findsByToken = true;
    director.cpi.vms.clear();
    director.cpi.disks.clear();
    director.cpi.snapshots.clear();
    director.cpi.calls.length = 0;
  });

  const manifest = (group: string) => `name: web\ninstance_groups:\n- {name: db, ${group}}\n`;
  const WITH_DISK = manifest("instances: 1, azs: [z1], persistent_disk: 64");
  const WITHOUT_DISK = manifest("instances: 1, azs: [z1]");
  async function deploy(text: string): Promise<string> {
    const { task } = await director.deployments.deploy({ manifest: text, wait: true });
    expect(task?.result).to.equal("/deployments/web");
    return (await instance()).instanceId;
  }
  const instance = async () => {
    const { instances } = await director.deployments.listInstances({ deployment: "web" });
    return instances[0] as (typeof instances)[number];
  };
  const orphans = async () => (await director.deployments.listPersistentDisks({ orphaned: true })).disks;
  const present = async () =>
    (await director.deployments.listPersistentDisks({})).disks.filter(({ orphanTime }) => orphanTime === undefined);
  const possible = async () => (await director.deployments.listPossibleOrphans({})).possibleOrphans;
  const done = (result: string) => ({ state: TaskState.DONE, result });
  const selection = { deployment: "web", group: "db", instance: "0" };
  const stop = (hard = false) => director.lifecycle.stop({ selection, hard, wait: true });
  const start = () => director.lifecycle.start({ selection, wait: true });

  describe("AttachOrphanedDisk", () => {
    const attach = async (diskCid: string, instanceId: string) =>
      (await director.deployments.attachOrphanedDisk({ diskCid, instanceId, wait: true })).task;

    it("in place of the present disk -> mounted, and the former disk is an orphan with its time; repeated -> no change", async () => {
      await deploy(WITH_DISK);
      await deploy(WITHOUT_DISK);
      const [orphan] = await orphans();
      expect(orphan?.orphanTime?.getTime()).to.be.closeTo(Date.now(), 60_000);
      const instanceId = await deploy(WITH_DISK);
      const [second] = await present();
      const refused = await attach(orphan?.diskCid ?? "", instanceId);
      expect(refused?.result).to.contain("the instance's jobs may be running: stop the instance first");
      await stop();
      const task = await attach(orphan?.diskCid ?? "", instanceId);
      expect(task).to.include(done(`disk \`${orphan?.diskCid}\` belongs to db/${instanceId}`));
      expect((await present()).map(({ diskCid, state }) => [diskCid, state])).to.deep.equal([
        [orphan?.diskCid, PersistentDiskState.MOUNTED],
      ]);
      expect((await orphans()).map(({ diskCid }) => diskCid)).to.deep.equal([second?.diskCid]);
      const { agentId, vmCid } = await instance();
      expect(director.agent(agentId).mountedCid).to.equal(orphan?.diskCid);
      expect(director.cpi.disks.get(second?.diskCid ?? "")?.vmCid).to.equal("");
      const calls = director.cpi.calls.length;
      expect(await attach(orphan?.diskCid ?? "", instanceId)).to.include(done(task?.result ?? ""));
      expect(director.cpi.calls.length).to.equal(calls);
      expect((await deploy(WITH_DISK)) && (await instance()).vmCid).to.equal(vmCid, "what it has is what is wanted");
    });

    it("the agent cannot release the present disk -> an error, and no change", async () => {
      await deploy(WITH_DISK);
      await deploy(WITHOUT_DISK);
      const [orphan] = await orphans();
      const instanceId = await deploy(WITH_DISK);
      const [second] = await present();
      await stop();
      const { agentId } = await instance();
      director.agent(agentId).failures.push(new InvalidStateError("the disk is in use"));
      expect((await attach(orphan?.diskCid ?? "", instanceId))?.result).to.contain("the disk is in use");
      expect((await orphans()).map(({ diskCid }) => diskCid)).to.deep.equal([orphan?.diskCid]);
      expect((await present()).map(({ diskCid }) => diskCid)).to.deep.equal([second?.diskCid]);
    });

    it("for an ignored instance -> refused", async () => {
      await deploy(WITH_DISK);
      await deploy(WITHOUT_DISK);
      const [orphan] = await orphans();
      const instanceId = await deploy(WITH_DISK);
      await director.lifecycle.ignore({ selection });
      expect((await attach(orphan?.diskCid ?? "", instanceId))?.result).to.contain(
        "is ignored: unignore the instance first",
      );
      await director.lifecycle.unignore({ selection });
      await stop();
      expect((await attach(orphan?.diskCid ?? "", instanceId))?.state).to.equal(TaskState.DONE);
    });

    for (const method of ["detachDisk", "attachDisk"] as const)
      it(`killed after the effect of ${method} -> the next director finishes, and no disk is lost`, async function () {
        leaveToVerify(this);
        await deploy(WITH_DISK);
        await deploy(WITHOUT_DISK);
        const [orphan] = await orphans();
        const instanceId = await deploy(WITH_DISK);
        await stop();
        const gate = director.cpi.gate(method, "after");
        const wanted = { diskCid: orphan?.diskCid ?? "", instanceId };
        const { task } = await director.deployments.attachOrphanedDisk(wanted);
        await gate.reached;
        await director.process.kill();
        const starting = director.process.start();
        gate.release();
        await starting;
        expect(await director.ended(task?.taskId ?? 0)).to.include({ state: TaskState.DONE, attempts: 2 });
        expect((await present()).map(({ diskCid, state }) => [diskCid, state])).to.deep.equal([
          [orphan?.diskCid, PersistentDiskState.MOUNTED],
        ]);
        expect(await orphans()).to.have.length(1);
        expect([...director.cpi.disks.values()].filter(({ vmCid }) => vmCid !== "")).to.have.length(1);
      });

    it("a disk of the CPI that the director never knew -> mounted, as BOSH does; the next deploy resizes it", async () => {
      const instanceId = await deploy(WITH_DISK);
      const [former] = await present();
      await stop();
      const diskCid = "disk-of-others";
      const place = { cpi: "", vmCid: "", readOnly: false, limits: undefined };
      director.cpi.disks.set(diskCid, { diskCid, ...place, sizeMib: 32, cloudProperties: {}, metadata: {} });
      expect(await attach(diskCid, instanceId)).to.include(done(`disk \`${diskCid}\` belongs to db/${instanceId}`));
      expect(director.agent((await instance()).agentId).mountedCid).to.equal(diskCid);
      expect((await orphans()).map((each) => each.diskCid)).to.deep.equal([former?.diskCid]);
      const calls = director.cpi.calls.length;
      expect((await attach(diskCid, instanceId))?.state).to.equal(TaskState.DONE);
      expect(director.cpi.calls.length).to.equal(calls);
      await deploy(WITH_DISK);
      expect((await present()).map((each) => each.diskCid)).to.deep.equal([diskCid]);
      expect(director.cpi.disks.get(diskCid)?.sizeMib).to.equal(64);
    });

    it("a disk that nobody knows, a dynamic disk, and any while the CPI cannot tell -> refused, the present disk stays", async () => {
      const instanceId = await deploy(WITH_DISK);
      const [former] = await present();
      await stop();
      expect((await attach("disk-never", instanceId))?.result).to.contain(
        "there is no disk `disk-never`: neither this director nor the default CPI knows it",
      );
      const dynamic = { diskName: "data", instanceId, sizeBytes: 1, diskPoolName: "fast" };
      expect((await director.disks.provideDynamicDisk({ ...dynamic, wait: true })).task?.state).to.equal(
        TaskState.DONE,
      );
      const { disks } = await director.disks.listDynamicDisks({});
      expect((await attach(disks[0]?.diskCid ?? "", instanceId))?.result).to.contain("it is the dynamic disk `data`");
      director.cpi.lacking.add("hasDisk");
      expect((await attach("disk-never", instanceId))?.state).to.equal(TaskState.ERROR);
      expect((await present()).map((each) => each.diskCid)).to.deep.equal([former?.diskCid]);
      expect((await present())[0]?.state).to.equal(PersistentDiskState.MOUNTED);
    });

    it("an unknown disk, another instance's disk, a disk of another az -> errors with the reason", async () => {
      const instanceId = await deploy(WITH_DISK);
      expect((await attach("disk-never", instanceId))?.result).to.contain("the instance's jobs may be running");
      const [taken] = await present();
      const other = manifest("instances: 1, azs: [z2], persistent_disk: 64").replace("web", "other");
      await director.deployments.deploy({ manifest: other, wait: true });
      const { instances } = await director.deployments.listInstances({ deployment: "other" });
      const elsewhere = instances[0]?.instanceId ?? "";
      expect((await attach(taken?.diskCid ?? "", elsewhere))?.result).to.contain(
        `the disk belongs to db/${instanceId}`,
      );
      await deploy(WITHOUT_DISK);
      expect((await attach(taken?.diskCid ?? "", elsewhere))?.result).to.contain("the disk is in AZ `z1`");
      await director.deployments.deleteDeployment({ deployment: "other", wait: true });
      expect((await attach(taken?.diskCid ?? "", elsewhere))?.result).to.contain("not found");
      await rejection(director.deployments.attachOrphanedDisk({ diskCid: "../x", instanceId }), InvalidArgumentError);
    });
  });

  describe("OrphanPersistentDisk", () => {
    const orphan = async (diskCid: string) =>
      (await director.deployments.orphanPersistentDisk({ diskCid, wait: true })).task;
    const presentCid = async (): Promise<string> => (await present())[0]?.diskCid ?? "";

    it("of a stopped instance -> an orphan with its data; repeated -> no change; started -> a new disk", async () => {
      const instanceId = await deploy(WITH_DISK);
      const diskCid = await presentCid();
      await stop();
      expect(await orphan(diskCid)).to.include({ ...done(`disk ${diskCid} orphaned`), deployment: "web" });
      expect(await orphans()).to.have.length(1);
      expect(director.cpi.disks.get(diskCid)?.vmCid).to.equal("");
      expect(director.agent((await instance()).agentId).mountedCid).to.equal(undefined);
      const calls = director.cpi.calls.length;
      expect(await orphan(diskCid)).to.include(done(`disk \`${diskCid}\` belongs to no instance`));
      expect(director.cpi.calls.length).to.equal(calls);
      await start();
      expect(await presentCid()).not.to.equal(diskCid);
      await stop();
      const { task } = await director.deployments.attachOrphanedDisk({ diskCid, instanceId, wait: true });
      expect(task?.state).to.equal(TaskState.DONE, task?.result);
      expect(await presentCid()).to.equal(diskCid);
    });

    it("of an instance without a VM -> an orphan, without a call to an agent", async () => {
      await deploy(WITH_DISK);
      await stop(true);
      for (const agent of director.agents) agent.calls.length = 0;
      expect((await orphan(await presentCid()))?.state).to.equal(TaskState.DONE);
      expect(await present()).to.deep.equal([]);
      expect(director.agents.flatMap(({ calls }) => calls)).to.deep.equal([]);
    });

    it("with possibly running jobs, of an ignored instance, or dynamic -> refused, and the disk stays", async () => {
      const instanceId = await deploy(WITH_DISK);
      const diskCid = await presentCid();
      expect((await orphan(diskCid))?.result).to.contain("whose jobs may be using the disk: stop the instance first");
      await stop();
      await director.lifecycle.ignore({ selection });
      expect((await orphan(diskCid))?.result).to.contain("is ignored: unignore the instance first");
      await director.lifecycle.unignore({ selection });
      await director.provide("data", instanceId);
      const { disk } = await director.disks.getDynamicDisk({ diskName: "data" });
      expect((await orphan(disk?.diskCid ?? ""))?.result).to.contain("is the dynamic disk `data`");
      expect((await present()).map((each) => each.diskCid)).to.deep.equal([diskCid]);
      expect((await orphan("disk-never"))?.state).to.equal(TaskState.DONE);
      await rejection(director.deployments.orphanPersistentDisk({ diskCid: "../x" }), InvalidArgumentError);
    });

    it("the agent cannot release the disk -> an error, and the disk stays the instance's", async () => {
      await deploy(WITH_DISK);
      const diskCid = await presentCid();
      await stop();
      director.agent((await instance()).agentId).failureOf.set("unmount", new Error("target is busy"));
      expect((await orphan(diskCid))?.result).to.contain("target is busy");
      expect(await presentCid()).to.equal(diskCid);
      expect((await orphan(diskCid))?.state).to.equal(TaskState.DONE);
      expect((await orphans()).map((each) => each.diskCid)).to.deep.equal([diskCid]);
    });
  });

  describe("DeleteVm", () => {
    const deleteVm = async (vmCid: string) => (await director.vms.deleteVm({ vmCid, wait: true })).task;

    it("of an instance -> its disks are detached first; the next deploy creates another VM with its disk", async () => {
      const instanceId = await deploy(WITH_DISK);
      const { vmCid } = await instance();
      await director.provide("dynamic", instanceId);
      director.cpi.calls.length = 0;
      const task = await deleteVm(vmCid);
      expect(task?.state).to.equal(TaskState.DONE, task?.result);
      expect(task?.deployment).to.equal("web");
      const acts = director.cpi.calls.map((call) => call.split(" ")[0]).filter((act) => act !== "info");
      expect(acts).to.deep.equal(["detachDisk", "detachDisk", "deleteVm"]);
      expect(await instance()).to.include({ vmCid: "", vmState: VmState.NONE });
      await deploy(WITH_DISK);
      expect((await present()).map(({ state }) => state)).to.deep.equal([PersistentDiskState.MOUNTED]);
      expect(director.cpi.vms.size).to.equal(1);
      expect(await deleteVm(vmCid)).to.include(done(`vm \`${vmCid}\` was already deleted`));
    });

    it("of an unknown VM -> deleted by the CPI that has it", async () => {
      await deploy(WITH_DISK);
      const [known] = director.cpi.vms.values();
      director.cpi.vms.set("stray", { ...(known as NonNullable<typeof known>), vmCid: "stray" });
      expect(await deleteVm("stray")).to.include(done("deleted vm `stray`"));
      expect(director.cpi.vms.size).to.equal(1);
    });
  });

  describe("DeleteDeployment by force", () => {
    const deleteDeployment = async (force: boolean) =>
      (await director.deployments.deleteDeployment({ deployment: "web", force, wait: true })).task;

    it("a VM and a dynamic disk that cannot be deleted -> recorded as possible orphans and named", async () => {
      const instanceId = await deploy(WITH_DISK);
      const { vmCid } = await instance();
      await director.provide("dynamic", instanceId);
      const { disk } = await director.disks.getDynamicDisk({ diskName: "dynamic" });
      const [persistent] = await present();
      director.cpi.lacking.add("deleteVm");
      expect((await deleteDeployment(false))?.state).to.equal(TaskState.ERROR);
      director.cpi.failNext("deleteDisk", new InvalidStateError("it is attached"));
      const task = await deleteDeployment(true);
      expect(task?.state).to.equal(TaskState.DONE, task?.result);
      const left = [`vm \`${vmCid}\` of db/${instanceId}`, `disk \`${disk?.diskCid}\` of dynamic disk dynamic`];
      expect(task?.result).to.match(
        /^deleted deployment `web`; possibly left behind \(see `bosh orphaned-vms` and `bosh disks --orphaned`\): /,
      );
      for (const each of left) expect(task?.result).to.contain(each);
      const listed = await possible();
      expect(listed.map(({ kind, cid, taskId }) => ({ kind, cid, taskId }))).to.have.deep.members([
        { kind: OrphanKind.VM, cid: vmCid, taskId: task?.taskId },
        { kind: OrphanKind.DISK, cid: disk?.diskCid, taskId: task?.taskId },
      ]);
      expect((await director.deployments.listDeployments({})).deployments).to.deep.equal([]);
      expect((await director.disks.listDynamicDisks({})).disks).to.deep.equal([]);
      expect((await orphans()).map(({ diskCid }) => diskCid)).to.deep.equal([persistent?.diskCid]);
    });

    it("a persistent disk that cannot be detached -> stays attached to the VM, as the result says; the disk is an orphan", async () => {
      await deploy(WITH_DISK);
      const [persistent] = await present();
      director.cpi.lacking.add("detachDisk");
      const task = await deleteDeployment(true);
      expect(task?.state).to.equal(TaskState.DONE, task?.result);
      const [vm] = await possible();
      expect(vm?.reason).to.contain(`it may still have persistent disk ${persistent?.diskCid}`);
      expect((await orphans()).map(({ diskCid }) => diskCid)).to.deep.equal([persistent?.diskCid]);
    });

    it("no failure -> no possible orphan", async () => {
      await deploy(WITH_DISK);
      expect(await deleteDeployment(true)).to.include(done("deleted deployment `web`"));
      expect(await possible()).to.deep.equal([]);
      expect(director.cpi.vms.size).to.equal(0);
    });
  });

  describe("snapshots", () => {
    const take = async (more: { instanceId?: string } = {}) =>
      (await director.snapshots.takeSnapshots({ deployment: "web", ...more, wait: true })).task;
    const list = async () => (await director.snapshots.listSnapshots({ deployment: "web" })).snapshots;
    const remove = async (snapshotCid: string) =>
      (await director.snapshots.deleteSnapshots({ deployment: "web", snapshotCid, wait: true })).task;

    it("of a deployment or an instance -> one per disk; listed, and deleted one by one or all", async () => {
      await deploy(manifest("instances: 2, azs: [z1], persistent_disk: 64"));
      const task = await take();
      const taken = await list();
      expect(task?.state).to.equal(TaskState.DONE, task?.result);
      for (const { snapshotCid } of taken) expect(task?.result).to.contain(snapshotCid);
      expect(taken.map(({ diskCid }) => diskCid)).to.have.members((await present()).map(({ diskCid }) => diskCid));
      const [first] = taken;
      expect(first?.createTime?.getTime()).to.be.closeTo(Date.now(), 60_000);
      expect(director.cpi.snapshots.get(first?.snapshotCid ?? "")?.metadata).to.include({
        deployment: "web",
        job: "db",
        index: first?.index,
        director_name: "diskmesh",
        instance_id: first?.instanceId,
      });
      await take({ instanceId: first?.instanceId ?? "" });
      expect(await list()).to.have.length(3);
      expect((await remove(first?.snapshotCid ?? ""))?.state).to.equal(TaskState.DONE);
      expect((await remove(first?.snapshotCid ?? ""))?.result).to.contain("not found in deployment `web`");
      expect((await remove(""))?.state).to.equal(TaskState.DONE);
      expect(await list()).to.deep.equal([]);
      expect(director.cpi.snapshots.size).to.equal(0);
    });

    it("a CPI without snapshots -> an error, and none is listed; no disk, no deployment -> errors", async () => {
      await deploy(WITH_DISK);
      director.cpi.lacking.add("snapshotDisk");
      expect((await take())?.result).to.match(/^the CPI of persistent disk `.*` cannot take snapshots/);
      expect(await list()).to.deep.equal([]);
      expect(await possible()).to.deep.equal([]);
      await deploy(WITHOUT_DISK);
      expect((await take())?.result).to.contain("has no persistent disk");
      await director.deployments.deleteDeployment({ deployment: "web", wait: true });
      expect((await take())?.result).to.contain("there is no instance in deployment `web`");
    });

    it("a lost answer -> an error and a possible orphan; the director is killed -> another snapshot is taken", async function () {
      leaveToVerify(this);
      await deploy(WITH_DISK);
      director.cpi.failNext("snapshotDisk", new TimeoutError("the CPI did not answer"), "after");
      expect((await take())?.result).to.match(/did not answer/);
      expect((await possible()).map(({ kind }) => kind)).to.deep.equal([OrphanKind.SNAPSHOT]);
      const gate = director.cpi.gate("snapshotDisk", "after");
      const { task } = await director.snapshots.takeSnapshots({ deployment: "web" });
      await gate.reached;
      await director.process.kill();
      const starting = director.process.start();
      gate.release();
      await starting;
      expect(await director.ended(task?.taskId ?? 0)).to.include({ state: TaskState.DONE, attempts: 2 });
      expect(await list()).to.have.length(1);
      expect(await possible()).to.have.length(2);
      expect(director.cpi.snapshots.size).to.equal(3);
      director.cpi.failNext("deleteSnapshot", new UnavailableError("in passing"));
      expect((await remove(""))?.state).to.equal(TaskState.DONE);
    });
  });
});
