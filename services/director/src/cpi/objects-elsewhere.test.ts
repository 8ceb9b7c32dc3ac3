import { OrphanKind, TaskState } from "@diskmesh/api/director";
import { InvalidStateError } from "@diskmesh/domain";
import { expect } from "chai";
import { TestDirector } from "../testing/test-director.js";

const CPIS = "cpis:\n- {name: east, type: memory}\n- {name: west, type: memory}\n";
const CLOUD = "azs: [{name: z1, cpi: east}, {name: z2, cpi: west}]\ndisk_types: [{name: fast, disk_size: 64}]\n";
const manifest = (group: string) => `name: web\ninstance_groups:\n- {name: db, instances: 1, azs: [z1], ${group}}\n`;
const PLAIN = manifest("env: {}");
const WITH_DISK = manifest("persistent_disk: 64");

describe("objects that their recorded CPI does not have", () => {
  let director: TestDirector;

  before(async () => {
    director = await TestDirector.start({ agents: { readyTimeoutMs: 30_000 } });
    await director.configs.updateConfig({ type: "cpi", content: CPIS });
    await director.configs.updateConfig({ type: "cloud", content: CLOUD });
  });
  after(() => director?.stop());
  beforeEach(async () => {
    for (const name of ["data", "other"]) await director.delete(name);
    await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    for (const { diskCid } of await orphanedDisks()) await deleteDisk(diskCid);
    for (const { token } of await possible()) await director.deployments.forgetPossibleOrphan({ token });
    director.cpi.vms.clear();
    director.cpi.disks.clear();
    director.cpi.snapshots.clear();
  });

  const possible = async () => (await director.deployments.listPossibleOrphans({})).possibleOrphans;
  const orphanedDisks = async () => (await director.deployments.listPersistentDisks({ orphaned: true })).disks;
  const deleteDisk = async (diskCid: string) =>
    (await director.deployments.deleteOrphanedDisk({ diskCid, wait: true })).task;
  const deleteVm = async (vmCid: string) => (await director.vms.deleteVm({ vmCid, wait: true })).task;
  const deleteWeb = async () => (await director.deployments.deleteDeployment({ deployment: "web", wait: true })).task;
  async function deploy(text: string): Promise<string> {
    expect(await director.deployManifest(text)).to.include({ state: TaskState.DONE });
    return (await director.deployments.listInstances({ deployment: "web" })).instances[0]?.instanceId ?? "";
  }

  /** Has CPI west have all VMs and disks, all of which are recorded with CPI east. */
  function moveToWest(): void {
    for (const [cid, vm] of director.cpi.vms) director.cpi.vms.set(cid, { ...vm, cpi: "west" });
    for (const [cid, disk] of director.cpi.disks) director.cpi.disks.set(cid, { ...disk, cpi: "west", vmCid: "" });
  }

  it("a VM that another CPI has -> deleted there", async () => {
    await deploy(PLAIN);
    moveToWest();
    expect(await deleteWeb()).to.include({ state: TaskState.DONE, result: "deleted deployment `web`" });
    expect(director.cpi.vms.size).to.equal(0);
    expect(await possible()).to.deep.equal([]);
  });

  it("dynamic and persistent disks that another CPI has -> deleted there", async () => {
    const instanceId = await deploy(WITH_DISK);
    await director.provide("data", instanceId);
    await director.detach("data");
    await deploy(manifest("persistent_disk: 0"));
    moveToWest();
    expect(await director.delete("data")).to.include({ state: TaskState.DONE });
    const [orphan] = await orphanedDisks();
    expect((await deleteDisk(orphan?.diskCid ?? ""))?.result).to.equal(`deleted disk \`${orphan?.diskCid}\``);
    expect(director.cpi.disks.size).to.equal(0);
  });

  it("no CPI has them -> done, and nothing is listed", async () => {
    const instanceId = await deploy(WITH_DISK);
    await director.provide("data", instanceId);
    await director.detach("data");
    await director.snapshots.takeSnapshots({ deployment: "web", wait: true });
    await deploy(manifest("persistent_disk: 0"));
    director.cpi.vms.clear();
    director.cpi.disks.clear();
    director.cpi.snapshots.clear();
    const deletedSnapshots = await director.snapshots.deleteSnapshots({ deployment: "web", wait: true });
    expect(deletedSnapshots.task).to.include({ state: TaskState.DONE });
    expect(await director.delete("data")).to.include({ state: TaskState.DONE });
    const [orphan] = await orphanedDisks();
    expect(await deleteDisk(orphan?.diskCid ?? "")).to.include({ state: TaskState.DONE });
    expect(await deleteWeb()).to.include({ state: TaskState.DONE });
    expect(await possible()).to.deep.equal([]);
  });

  it("another CPI cannot say -> possible orphans with the reason, and the tasks go on", async () => {
    const instanceId = await deploy(WITH_DISK);
    await director.provide("data", instanceId);
    await director.detach("data");
    await director.snapshots.takeSnapshots({ deployment: "web", wait: true });
    const [vmCid = ""] = director.cpi.vms.keys();
    director.cpi.snapshots.clear();
    await deploy(manifest("persistent_disk: 0"));
    const [orphan] = await orphanedDisks();
    moveToWest();
    const broken = new InvalidStateError("the cloud is away");
    director.cpi.failNext("hasDisk", broken);
    expect(await director.delete("data")).to.include({ state: TaskState.DONE });
    director.cpi.failNext("hasDisk", broken);
    expect((await deleteDisk(orphan?.diskCid ?? ""))?.result).to.match(
      /^forgot disk `disk-.*may still exist \(see `bosh disks --orphaned`\): .*the cloud is away/,
    );
    director.cpi.failNext("hasVm", broken);
    const deleted = await deleteWeb();
    expect(deleted?.state).to.equal(TaskState.DONE);
    const listed = (await possible()).map(({ kind, cid, cpi, madeFor }) => [kind, cid, cpi, madeFor]);
    expect(listed).to.have.deep.members([
      [
        OrphanKind.DISK,
        [...director.cpi.disks.keys()].find((cid) => cid !== orphan?.diskCid),
        "east",
        "dynamic disk data",
      ],
      [OrphanKind.DISK, orphan?.diskCid, "east", `db/${instanceId}`],
      [OrphanKind.VM, vmCid, "east", `db/${instanceId}`],
    ]);
    for (const { reason } of await possible())
      expect(reason).to.match(/CPI `east` does not have .* CPI `west` did not tell: the cloud is away/);
    expect(await director.eventTexts(deleted?.taskId ?? 0)).to.include(
      `Possibly orphaned vm ${vmCid} failed: ${(await possible()).find(({ cid }) => cid === vmCid)?.reason}: see \`bosh orphaned-vms\``,
    );
    // Their deletion by CID ends them.
    expect((await deleteVm(vmCid))?.result).to.equal(`deleted vm \`${vmCid}\``);
    for (const cid of [...director.cpi.disks.keys()])
      expect((await deleteDisk(cid))?.result).to.equal(`deleted disk \`${cid}\``);
    expect(await possible()).to.deep.equal([]);
    expect([director.cpi.vms.size, director.cpi.disks.size]).to.deep.equal([0, 0]);
  });

  it("the possible orphan is still unclear -> an error that names what to do, and it stays listed", async () => {
    await deploy(PLAIN);
    moveToWest();
    const broken = new InvalidStateError("the cloud is away");
    director.cpi.failNext("hasVm", broken);
    await deleteWeb();
    const [orphan] = await possible();
    director.cpi.failNext("hasVm", broken);
    expect((await deleteVm(orphan?.cid ?? ""))?.result)
      .to.contain("the cloud is away")
      .and.contain(`delete the vm in the infrastructure, then \`diskmesh forget-orphan ${orphan?.token}\``);
    expect(await possible()).to.deep.equal([orphan]);
  });

  it("another disk of another CPI has the same CID -> kept", async () => {
    const instanceId = await deploy(PLAIN);
    await director.provide("data", instanceId);
    await director.detach("data");
    const [cid = ""] = director.cpi.disks.keys();
    director.cpi.cidsToGive.set("createDisk", cid);
    moveToWest();
    const size = { diskPoolName: "fast", sizeBytes: 64 * 1024 * 1024 };
    const wanted = { diskName: "other", deployment: "web", az: "z2", ...size, wait: true };
    await director.deployManifest(manifest("env: {}").replace("azs: [z1]", "azs: [z1, z2]").replace("1,", "2,"));
    await director.disks.createDynamicDisk(wanted);
    director.cpi.cidsToGive.clear();
    expect((await director.disks.getDynamicDisk({ diskName: "other" })).disk).to.include({ diskCid: cid, cpi: "west" });
    expect(await director.delete("data")).to.include({ state: TaskState.DONE });
    expect([...director.cpi.disks.keys()]).to.deep.equal([cid]);
    expect(await director.delete("other")).to.include({ state: TaskState.DONE });
    expect(director.cpi.disks.size).to.equal(0);
  });

  it("killed after another CPI deleted the VM -> the next director finishes", async () => {
    await deploy(PLAIN);
    moveToWest();
    const gate = director.cpi.gate("deleteVm", "after");
    const { task } = await director.deployments.deleteDeployment({ deployment: "web" });
    await gate.reached;
    await director.process.kill();
    const starting = director.process.start();
    gate.release();
    await starting;
    expect(await director.ended(task?.taskId ?? 0)).to.include({ state: TaskState.DONE, attempts: 2 });
    expect(director.cpi.vms.size).to.equal(0);
    expect(await possible()).to.deep.equal([]);
  });
});
