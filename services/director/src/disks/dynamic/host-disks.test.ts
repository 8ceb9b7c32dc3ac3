import { SubjectKind } from "@diskmesh/api/common";
import { TaskState } from "@diskmesh/api/director";
import { UnavailableError } from "@diskmesh/domain";
import { expect } from "chai";
import { TestDirector } from "../../testing/test-director.js";

const MIB = 1024 * 1024;

/** hosts.test.ts checks which CPI has a host, and decisions.test.ts what a request does in each state of a disk. */
describe("dynamic disks on hosts", () => {
  let director: TestDirector;

  before(async () => {
    director = await TestDirector.start();
    for (const [hostId, az] of [
      ["h1", "z1"],
      ["h2", "z1"],
      ["h3", "z3"],
    ] as const)
      director.cpi.addHost(hostId, az);
  });
  after(() => director?.stop());

  const diskOf = async (diskName: string) => (await director.disks.getDynamicDisk({ diskName })).disk;
  const provide = async (diskName: string, hostId: string) =>
    (await director.disks.provideDynamicDisk({ diskName, hostId, sizeBytes: 64 * MIB, wait: true })).task;
  const attach = async (diskName: string, hostId: string) =>
    (await director.disks.attachDynamicDisk({ diskName, hostId, wait: true })).task;
  const calls = async (work: () => Promise<unknown>) => {
    director.cpi.calls.length = 0;
    await work();
    return director.cpi.calls.map((call) => call.split(" ")[0]);
  };

  it("without deployment and cloud config -> made near the host, attached there, moved to another host, deleted", async () => {
    expect(await calls(() => provide("scratch", "h1"))).to.deep.equal(["createDisk", "attachDisk"]);
    const disk = await diskOf("scratch");
    const path = `/memory/${disk?.diskCid}`;
    expect(disk).to.include({ hostId: "h1", vmCid: "host/h1", path, instanceId: "", deployment: "", az: "z1" });
    expect(disk).to.include({ pool: "default", diskPoolName: "", firstAttachment: true, diskHint: undefined });
    expect(director.cpi.nearVms.at(-1)).to.equal("host/h1");
    const { summary } = await director.admin.explain({ subject: { kind: SubjectKind.DISK, name: "scratch" } });
    expect(summary).to.equal(`disk scratch (${disk?.diskCid}) is attached, on host h1`);
    expect(director.cpi.disks.get(disk?.diskCid ?? "")?.cloudProperties).to.include({ pool: "default" });
    expect(await calls(() => provide("scratch", "h1"))).to.deep.equal([]);
    expect((await attach("scratch", "h2"))?.result).to.contain("attached to a different host `h1`: detach it first");
    await director.detach("scratch");
    expect(await diskOf("scratch")).to.include({ hostId: "", path: "", vmCid: "", attachmentId: "" });
    expect((await attach("scratch", "h3"))?.result).to.equal("disk `scratch` is in AZ `z1`, not in AZ `z3`");
    expect(await attach("scratch", "/h2")).to.include({
      state: TaskState.DONE,
      result: `attached disk \`scratch\` to host \`h2\` at ${path}`,
      description: "attach dynamic disk `scratch` to host `h2`",
    });
    await director.detach("scratch");
    expect((await director.delete("scratch")).state).to.equal(TaskState.DONE);
  });

  it("a late detach of a former attachment -> changes nothing", async () => {
    await provide("late", "h1");
    const former = await diskOf("late");
    await director.detach("late");
    await attach("late", "h2");
    for (const meant of [{ hostId: "h1" }, { attachmentId: former?.attachmentId ?? "" }, { instanceId: "h2" }])
      expect(
        (await director.disks.detachDynamicDisk({ diskName: "late", ...meant, wait: true })).task?.result,
      ).to.contain("nothing was changed");
    expect(await diskOf("late")).to.include({ hostId: "h2" });
    await director.disks.detachDynamicDisk({ diskName: "late", hostId: "h2", wait: true });
    expect(await diskOf("late")).to.include({ hostId: "" });
  });

  it("a task on a host -> holds the lock of the host before it asks for the host", async () => {
    const gate = director.cpi.gate("hasVm", "before");
    const providing = provide("locked", "h1");
    await gate.reached;
    const { locks } = await director.locks.listLocks({});
    expect(locks.map(({ type, resource }) => `${type} ${resource}`)).to.deep.equal([
      "LOCK_TYPE_HOST h1",
      "LOCK_TYPE_DISK locked",
    ]);
    gate.release();
    expect((await providing)?.state).to.equal(TaskState.DONE);
  });

  it("a deployment is made and deleted -> disks of hosts stay attached; none goes the other way", async () => {
    await provide("stays", "h1");
    const [instanceId = ""] = await director.deploy("web", 1);
    expect((await director.provide("of-web", instanceId)).state).to.equal(TaskState.DONE);
    const { task } = await director.disks.attachDynamicDisk({ diskName: "stays", instanceId, wait: true });
    expect(task?.result).to.contain("belongs to no deployment");
    expect((await provide("of-web", "h1"))?.result).to.contain("belongs to deployment `web`");
    await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    const disk = await diskOf("stays");
    expect(disk).to.include({ hostId: "h1", attachmentId: disk?.attachmentId });
    expect(director.cpi.disks.get(disk?.diskCid ?? "")?.vmCid).to.equal("host/h1");
    expect((await director.disks.listDynamicDisks({ deployment: "web" })).disks).to.deep.equal([]);
  });

  it("a detach -> asks neither for the host nor an agent, and is recorded without a pending notification", async () => {
    await provide("away", "h1");
    director.cpi.failNext("hasVm", new UnavailableError("the registry is away"));
    expect(await calls(() => director.detach("away"))).to.deep.equal(["detachDisk"]);
    expect((await director.disks.listOwedRemovals({})).owedRemovals).to.deep.equal([]);
    await provide("away", "h1");
  });

  it("created for hosts -> near the host that will use it, or anywhere in an az; attached there or elsewhere", async () => {
    const create = async (request: object) =>
      (await director.disks.createDynamicDisk({ sizeBytes: 64 * MIB, wait: true, ...request })).task;
    const made = await create({ diskName: "near", hostId: "h1", pool: "ssd", exportKind: "EXPORT_KIND_DEVICE" });
    expect(made).to.include({ state: TaskState.DONE, result: "created disk `near` for hosts" });
    expect(director.cpi.nearVms.at(-1)).to.equal("host/h1");
    const { cloudProperties } = director.cpi.disks.get((await diskOf("near"))?.diskCid ?? "") ?? {};
    expect(cloudProperties).to.include({ pool: "ssd", export: "device" });
    expect(await diskOf("near")).to.include({ pool: "ssd", diskPoolName: "", deployment: "", az: "z1", hostId: "" });
    const again = { diskName: "near", pool: "ssd" };
    for (const place of [{ hostId: "h2" }, { az: "z1" }])
      expect(await calls(() => create({ ...again, ...place }))).to.deep.equal([]);
    expect((await create({ ...again, hostId: "h3" }))?.result).to.contain("is in AZ `z1`, not in AZ `z3`");
    expect((await create({ ...again, hostId: "h9" }))?.result).to.equal(
      "host `h9` not found: no CPI has it; `diskmesh hosts` lists hosts",
    );
    expect((await attach("near", "h2"))?.state).to.equal(TaskState.DONE);
    const { disks } = await director.disks.listDynamicDisks({ hostId: "h2" });
    expect(disks.map(({ diskName }) => diskName)).to.deep.equal(["near"]);
    expect((await create({ diskName: "anywhere", az: "z3" }))?.state).to.equal(TaskState.DONE);
    expect(director.cpi.nearVms.at(-1)).to.equal("");
    expect((await attach("anywhere", "h3"))?.state).to.equal(TaskState.DONE);
    const { freeBytes } = await director.disks.getDynamicDiskCapacity({ az: "no-cloud-config", pool: "ssd" });
    expect(freeBytes).to.be.above(0);
    await director.detach("near");
  });

  it("an unknown host -> NOT_FOUND, and no disk is recorded", async () => {
    const { task } = await director.disks.provideDynamicDisk({
      diskName: "none",
      hostId: "h9",
      sizeBytes: MIB,
      wait: true,
    });
    expect(task?.result).to.equal("host `h9` not found: no CPI has it; `diskmesh hosts` lists hosts");
    expect((await director.disks.listDynamicDisks({})).disks.map(({ diskName }) => diskName)).not.to.include("none");
  });
});
