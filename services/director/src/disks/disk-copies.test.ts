import { OrphanKind, PersistentDiskState, TaskState } from "@diskmesh/api/director";
import { NoDiskSpaceError } from "@diskmesh/cpi";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { TestDirector } from "../testing/test-director.js";

const CLOUD = `
azs: [{name: z1}]
disk_types: [{name: small, disk_size: 64, cloud_properties: {type: hdd}}, {name: fast, disk_size: 128, cloud_properties: {type: ssd}}]
`;

/** The CPI neither resizes nor updates disks, and the agents behave like stock agents. */
describe("a persistent disk of another type that only the agent can copy", () => {
  let director: TestDirector;

  before(async () => {
    const tuning = { agents: { detachTimeoutMs: 500 } };
    director = await TestDirector.start({ agents: { readyTimeoutMs: 30_000 }, tuning });
    await director.configs.updateConfig({ type: "cloud", content: CLOUD });
    director.cpi.lacking.add("resizeDisk").add("updateDisk");
  });
  after(() => director?.stop());
  beforeEach(async () => {
    await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    const { disks } = await director.deployments.listPersistentDisks({ orphaned: true });
    for (const { diskCid } of disks) await director.deployments.deleteOrphanedDisk({ diskCid, wait: true });
    await agentsThatCanMigrate(true);
    director.cpi.disks.clear();
    director.cpi.calls.length = 0;
  });

  async function agentsThatCanMigrate(canMigrate: boolean): Promise<void> {
    for (const agent of director.agents) {
      await agent.stop();
      agent.canMigrate = canMigrate;
      agent.mountedCid = undefined;
      agent.migrationTargetCid = undefined;
      agent.calls.length = 0;
      await agent.start();
    }
  }
  const manifest = (type: string, instances = 1) =>
    `name: web\ninstance_groups:\n- {name: db, instances: ${instances}, azs: [z1], persistent_disk_type: ${type}}\n`;
  const deploy = async (type: string, instances = 1) =>
    (await director.deployments.deploy({ manifest: manifest(type, instances), wait: true })).task;
  const all = async () => (await director.deployments.listPersistentDisks({})).disks;
  const present = async () => (await all()).filter(({ orphanTime }) => orphanTime === undefined);
  const orphans = async () =>
    (await all()).filter(({ orphanTime }) => orphanTime !== undefined).map((disk) => disk.diskCid);
  const agent = async () => {
    const { instances } = await director.deployments.listInstances({ deployment: "web" });
    return director.agent(instances[0]?.agentId ?? "");
  };

  /** Deploys an instance whose disk has content; returns the disk's CID. */
  async function deployed(): Promise<string> {
    expect((await deploy("small"))?.result).to.equal("/deployments/web");
    const [disk] = await present();
    const cid = disk?.diskCid ?? "";
    (await agent()).contents.set(cid, "precious");
    return cid;
  }

  /**
   * Expects that the instance has one disk, of the new type and with the former disk's content, and that the former
   * disk is an orphan.
   */
  async function expectCopied(formerCid: string): Promise<void> {
    const [disk, more] = await present();
    expect(more).to.equal(undefined);
    expect(disk).to.include({ state: PersistentDiskState.MOUNTED, sizeBytes: 128 * 1024 * 1024 });
    expect(await orphans()).to.deep.equal([formerCid]);
    const { contents, mountedCids, persistentDisks } = await agent();
    expect(contents.get(disk?.diskCid ?? "")).to.equal("precious");
    expect(mountedCids).to.deep.equal([disk?.diskCid]);
    expect([...persistentDisks.keys()])
      .to.include(disk?.diskCid)
      .and.not.include(formerCid);
    expect(director.cpi.disks.get(disk?.diskCid ?? "")).to.deep.include({ cloudProperties: { type: "ssd" } });
    expect([...director.cpi.disks.values()].filter(({ vmCid }) => vmCid !== "")).to.have.length(1);
    expect(director.cpi.disks.size).to.equal(2);
  }

  it("-> copied to a new disk, and the former disk is an orphan; repeated -> no change", async () => {
    const cid = await deployed();
    const task = await deploy("fast");
    expect(task?.result).to.equal("/deployments/web");
    await expectCopied(cid);
    const texts = await director.eventTexts(task?.taskId ?? 0);
    expect(texts.filter((text) => !/ (started|finished): [^:]*$/.test(text))).to.deep.equal([]);
    const notes = texts.filter((text) => /^CPI method missing .*finished/.test(text));
    expect(notes.join()).to.match(/^CPI method missing CPI updateDisk failed: this CPI has no updateDisk/);
    expect(notes).to.have.length(1);
    director.cpi.calls.length = 0;
    await deploy("fast");
    expect(director.cpi.calls).to.deep.equal([]);
  });

  it("the agent cannot copy -> an error with the reason, the disk as before, and nothing left behind", async () => {
    const cid = await deployed();
    await agentsThatCanMigrate(false);
    const task = await deploy("fast");
    expect(task?.result).to.match(
      /cannot change disks, and agent host-\d cannot copy disks .*keep the disk's size and type/,
    );
    expect((await all()).map(({ diskCid, state }) => [diskCid, state])).to.deep.equal([
      [cid, PersistentDiskState.MOUNTED],
    ]);
    expect([...director.cpi.disks.keys()]).to.deep.equal([cid]);
    expect((await deploy("small"))?.state).to.equal(TaskState.DONE);
  });

  it("no space for another disk -> an error, and the disk as before", async () => {
    const cid = await deployed();
    director.cpi.failNext("createDisk", new NoDiskSpaceError("full"));
    expect((await deploy("fast"))?.result).to.contain("full");
    expect((await all()).map(({ diskCid, state }) => [diskCid, state])).to.deep.equal([
      [cid, PersistentDiskState.MOUNTED],
    ]);
    expect([...director.cpi.disks.keys()]).to.deep.equal([cid]);
  });

  it("the copy fails -> an error; repeated -> copied; reverted instead -> the new disk is deleted", async function () {
    leaveToVerify(this);
    const cid = await deployed();
    const copier = await agent();
    for (const next of ["small", "fast"]) {
      copier.failureOf.set("migrate", new Error("the device is broken"));
      expect((await deploy("fast"))?.result).to.contain("the device is broken");
      expect((await present()).map(({ state }) => state)).to.have.members([
        PersistentDiskState.MOUNTED,
        PersistentDiskState.ATTACHED,
      ]);
      expect((await deploy(next))?.result).to.equal("/deployments/web");
      if (next === "fast") continue;
      expect((await all()).map(({ diskCid, state }) => [diskCid, state])).to.deep.equal([
        [cid, PersistentDiskState.MOUNTED],
      ]);
      expect([...director.cpi.disks.keys()]).to.deep.equal([cid]);
    }
    await expectCopied(cid);
  });

  for (const method of ["createDisk", "attachDisk", "detachDisk"] as const)
    for (const when of ["before", "after"] as const)
      it(`killed ${when} the effect of ${method} -> copied by the next director`, async function () {
        leaveToVerify(this);
        const cid = await deployed();
        const gate = director.cpi.gate(method, when);
        await killAt(gate);
        await expectCopied(cid);
      });

  it("a CPI without lookup by token -> copied; killed in create_disk -> copied, with one possible orphan", async function () {
    leaveToVerify(this);
    director.cpi.findsByToken = false;
    try {
      const cid = await deployed();
      expect((await deploy("fast"))?.result).to.equal("/deployments/web");
      await expectCopied(cid);
      await director.deployments.deleteDeployment({ deployment: "web", wait: true });
      director.cpi.disks.clear();
      await deployed();
      await killAt(director.cpi.gate("createDisk", "after"));
      const { possibleOrphans } = await director.deployments.listPossibleOrphans({});
      expect(possibleOrphans.map(({ kind }) => kind)).to.deep.equal([OrphanKind.DISK]);
      expect((await present()).map(({ state, sizeBytes }) => [state, sizeBytes / 2 ** 20])).to.deep.equal([
        [PersistentDiskState.MOUNTED, 128],
      ]);
      expect(director.cpi.disks.size).to.equal(3);
    } finally {
      director.cpi.findsByToken = true;
    }
  });

  it("killed while the agent copies -> the agent copies once", async () => {
    const cid = await deployed();
    const copier = await agent();
    const gate = copier.gateOf("migrate");
    await killAt(gate, () => eventually(() => expect(copier.mountedCids).to.not.include(cid)));
    await expectCopied(cid);
    expect(copier.calls.filter((call) => call.startsWith("migrate"))).to.have.length(1);
  });

  it("cancelled while the agent copies, and reverted -> the former disk is mounted again before anything uses it", async () => {
    const cid = await deployed();
    const copier = await agent();
    const gate = copier.gateOf("migrate");
    const { task } = await director.deployments.deploy({ manifest: manifest("fast") });
    await gate.reached;
    await director.tasks.cancelTask({ taskId: task?.taskId ?? 0 });
    await director.ended(task?.taskId ?? 0);
    gate.release();
    await eventually(() => expect(copier.mountedCids).to.not.include(cid));
    expect((await deploy("small"))?.result).to.equal("/deployments/web");
    expect(copier.mountedCids).to.deep.equal([cid]);
    expect((await all()).map(({ diskCid, state }) => [diskCid, state])).to.deep.equal([
      [cid, PersistentDiskState.MOUNTED],
    ]);
    expect([...director.cpi.disks.keys()]).to.deep.equal([cid]);
    expect(director.cpi.disks.get(cid)?.vmCid).to.not.equal("");
  });

  it("the instance leaves during the copy -> both disks are orphans, and none is attached", async function () {
    leaveToVerify(this);
    const cid = await deployed();
    const copier = await agent();
    copier.failureOf.set("migrate", new Error("the device is broken"));
    expect((await deploy("fast"))?.result).to.contain("the device is broken");
    expect(await present()).to.have.length(2);
    expect((await deploy("fast", 0))?.result).to.equal("/deployments/web");
    expect(await orphans())
      .to.have.length(2)
      .and.include(cid);
    expect([...director.cpi.disks.values()].filter(({ vmCid }) => vmCid !== "")).to.deep.equal([]);
  });

  async function killAt(
    gate: { readonly reached: Promise<unknown>; release(): void },
    meanwhile: () => Promise<unknown> = async () => {},
  ): Promise<void> {
    const { task } = await director.deployments.deploy({ manifest: manifest("fast") });
    await gate.reached;
    await director.process.kill();
    gate.release();
    await meanwhile();
    await director.process.start();
    expect(await director.ended(task?.taskId ?? 0)).to.include({ result: "/deployments/web", attempts: 2 });
  }
});
