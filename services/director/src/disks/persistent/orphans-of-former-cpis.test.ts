import { TaskState } from "@diskmesh/api/director";
import { expect } from "chai";
import { TestDirector } from "../../testing/test-director.js";

const cpis = (...names: string[]) => `cpis:\n${names.map((name) => `- {name: ${name}, type: memory}\n`).join("")}`;
const cloud = (cpi: string) => `azs: [{name: z1, cpi: ${cpi}}]\ndisk_types: [{name: fast, disk_size: 64}]\n`;
const GROUP = "instances: 1, azs: [z1], persistent_disk: 64";

describe("orphaned disks whose CPI left the cpi-config", () => {
  let director: TestDirector;

  before(async () => {
    director = await TestDirector.start({ agents: { readyTimeoutMs: 30_000 } });
  });
  after(() => director?.stop());

  const configure = async (cpi: string, ...all: string[]) => {
    await director.configs.updateConfig({ type: "cpi", content: cpis(...all) });
    await director.configs.updateConfig({ type: "cloud", content: cloud(cpi) });
  };
  const orphans = async () => (await director.deployments.listPersistentDisks({ orphaned: true })).disks;
  const remove = async (diskCid: string, force = false) =>
    (await director.deployments.deleteOrphanedDisk({ diskCid, force, wait: true })).task;

  /** Creates an orphaned disk at CPI `west` and then removes `west` from the cpi-config. */
  async function orphanOfWest(): Promise<string> {
    await configure("west", "east", "west");
    const manifest = `name: web\ninstance_groups:\n- {name: db, ${GROUP}}\n`;
    expect((await director.deployManifest(manifest)).state).to.equal(TaskState.DONE);
    await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    await configure("east", "east");
    const [orphan] = await orphans();
    return orphan?.diskCid ?? "";
  }

  it("another CPI has the disk -> deleted there", async () => {
    const diskCid = await orphanOfWest();
    const disk = director.cpi.disks.get(diskCid);
    if (disk !== undefined) director.cpi.disks.set(diskCid, { ...disk, cpi: "east" });
    expect((await remove(diskCid))?.result).to.equal(`deleted disk \`${diskCid}\``);
    expect(await orphans()).to.deep.equal([]);
    expect(director.cpi.disks.has(diskCid)).to.equal(false);
  });

  it("no CPI has the disk -> kept; by force -> record deleted, and listed as a possible orphan", async () => {
    const diskCid = await orphanOfWest();
    const kept = await remove(diskCid);
    expect(kept?.state).to.equal(TaskState.ERROR);
    expect(kept?.result).to.contain("CPI `west`").and.contain("put the CPI back");
    expect((await orphans()).map((each) => each.diskCid)).to.deep.equal([diskCid]);
    const forgotten = await remove(diskCid, true);
    expect(forgotten?.state).to.equal(TaskState.DONE);
    expect(forgotten?.result).to.contain("may still exist");
    expect(await orphans()).to.deep.equal([]);
    expect(director.cpi.disks.has(diskCid)).to.equal(true);
    const { possibleOrphans } = await director.deployments.listPossibleOrphans({});
    expect(possibleOrphans.map(({ cid, cpi }) => [cid, cpi])).to.deep.equal([[diskCid, "west"]]);
  });
});
