import { OrphanKind, TaskState } from "@diskmesh/api/director";
import { InvalidStateError, TimeoutError, UnavailableError } from "@diskmesh/domain";
import { expect } from "chai";
import { TestDirector } from "../testing/test-director.js";

const CLOUD = "azs: [{name: z1}]\ndisk_types: [{name: fast, disk_size: 64}]\n";

/** These CPIs follow BOSH's contract: a repeated create_vm or create_disk call creates a second object. */
describe("objects that a CPI may have created without a record", () => {
  let director: TestDirector;

  before(async () => {
    director = await TestDirector.start({ tuning: { maxPossibleOrphans: 2 } });
    await director.configs.updateConfig({ type: "cloud", content: CLOUD });
  });
  after(() => director?.stop());
  beforeEach(async () => {
    await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    director.cpi.findsByToken = false;
    director.cpi.vms.clear();
    director.cpi.disks.clear();
    for (const { token } of await list()) await director.deployments.forgetPossibleOrphan({ token });
  });

  const list = async () => (await director.deployments.listPossibleOrphans({})).possibleOrphans;
  const manifest = (group: string) => `name: web\ninstance_groups:\n- {name: db, azs: [z1], ${group}}\n`;
  const VM = manifest("instances: 1");
  const DISK = manifest("instances: 1, persistent_disk: 64");
  const deploy = async (text: string) => (await director.deployments.deploy({ manifest: text, wait: true })).task;
  const instanceId = async () =>
    (await director.deployments.listInstances({ deployment: "web" })).instances[0]?.instanceId ?? "";
  const lost = () => new TimeoutError("the CPI did not answer");

  it("create_vm without an answer -> an error and a listed orphan; the next deploy creates another VM; forgotten, twice", async () => {
    director.cpi.failNext("createVm", lost(), "after");
    const failed = await deploy(VM);
    expect(failed?.result).to.match(/did not answer/);
    const [orphan, more] = await list();
    expect(more).to.equal(undefined);
    const [first] = director.cpi.vms.values();
    expect(orphan).to.include({
      token: first?.request.agentId,
      kind: OrphanKind.VM,
      az: "z1",
      deployment: "web",
      madeFor: `db/${await instanceId()}`,
      taskId: failed?.taskId,
      reason: "CPI createVm failed: the CPI did not answer",
    });
    // The next call differs, because the cause of the failure may have been corrected.
    expect((await deploy(manifest("instances: 1, env: {a: 1}")))?.state).to.equal(TaskState.DONE);
    expect([...director.cpi.vms.values()].map((vm) => "a" in (vm.request.env ?? {}))).to.deep.equal([false, true]);
    expect(await list()).to.deep.equal([orphan]);
    for (let times = 0; times < 2; times++)
      await director.deployments.forgetPossibleOrphan({ token: orphan?.token ?? "" });
    expect(await list()).to.deep.equal([]);
  });

  it("the director is killed during create_vm -> the next director creates another VM and lists the possible orphan", async () => {
    const gate = director.cpi.gate("createVm", "after");
    const { task } = await director.deployments.deploy({ manifest: VM });
    await gate.reached;
    await director.process.kill();
    await director.process.start();
    gate.release();
    expect(await director.ended(task?.taskId ?? 0)).to.include({ state: TaskState.DONE, attempts: 2 });
    expect(director.cpi.vms.size).to.equal(2);
    const [orphan] = await list();
    expect(orphan).to.include({ kind: OrphanKind.VM, reason: "an earlier attempt was interrupted during the call" });
    const [left, made] = director.cpi.vms.values();
    expect(left?.request.agentId).to.equal(orphan?.token);
    expect(made?.vmCid).to.equal((await director.deployments.listInstances({ deployment: "web" })).instances[0]?.vmCid);
  });

  it("create_disk without an answer, for a persistent or dynamic disk -> a listed orphan", async () => {
    await deploy(VM);
    director.cpi.failNext("createDisk", lost(), "after");
    expect((await deploy(DISK))?.state).to.equal(TaskState.ERROR);
    expect((await list())[0]).to.include({
      kind: OrphanKind.DISK,
      madeFor: `db/${await instanceId()}`,
      deployment: "web",
    });
    director.cpi.failNext("createDisk", lost(), "after");
    expect((await director.provide("data", await instanceId())).state).to.equal(TaskState.ERROR);
    expect((await list()).map((orphan) => orphan.madeFor)).to.include("dynamic disk data");
    expect(director.cpi.disks.size).to.equal(2);
    expect((await deploy(DISK))?.state).to.equal(TaskState.DONE);
    expect((await director.provide("data", await instanceId())).state).to.equal(TaskState.DONE);
    expect(await list()).to.have.lengthOf(2);
    expect([...director.cpi.disks.values()].filter((disk) => disk.vmCid !== "")).to.have.lengthOf(2);
  });

  it("an object that is no longer wanted -> is not created only to be deleted", async () => {
    await deploy(VM);
    for (const attempt of [() => deploy(DISK), async () => director.provide("data", await instanceId())]) {
      director.cpi.failNext("createDisk", lost(), "after");
      expect((await attempt())?.state).to.equal(TaskState.ERROR);
    }
    expect((await deploy(VM))?.state).to.equal(TaskState.DONE);
    expect((await director.delete("data")).state).to.equal(TaskState.DONE);
    director.cpi.failNext("createVm", lost(), "after");
    expect((await deploy(manifest("instances: 2")))?.state).to.equal(TaskState.ERROR);
    const deleted = await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    expect(deleted.task?.state).to.equal(TaskState.DONE);
    expect([director.cpi.vms.size, director.cpi.disks.size]).to.deep.equal([1, 2], "which nobody knows of");
    // The oldest of the three is beyond the limit of this test's config.
    expect((await list()).map((orphan) => orphan.kind).sort()).to.deep.equal([OrphanKind.DISK, OrphanKind.VM]);
  });

  const NOT_MADE: [string, Error][] = [
    ["the CPI refuses", new InvalidStateError("no quota")],
    ["the dispatcher is busy", new UnavailableError("try again", { outcome: "not_done" })],
  ];
  for (const [cause, error] of NOT_MADE)
    it(`${cause} -> nothing was created and nothing is listed, even after a repetition`, async () => {
      director.cpi.failNext("createVm", error);
      await deploy(VM);
      expect((await deploy(VM))?.state).to.equal(TaskState.DONE);
      expect(director.cpi.vms.size).to.equal(1);
      expect(await list()).to.deep.equal([]);
    });

  it("a CPI with lookup by token -> the call is repeated at once; one VM, and no listed orphan", async () => {
    director.cpi.findsByToken = true;
    director.cpi.failNext("createVm", lost(), "after");
    director.cpi.failNext("createDisk", lost(), "after");
    expect((await deploy(DISK))?.state).to.equal(TaskState.DONE);
    expect([director.cpi.vms.size, director.cpi.disks.size]).to.deep.equal([1, 1]);
    expect(await list()).to.deep.equal([]);
  });
});
