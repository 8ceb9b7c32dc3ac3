import { OrphanKind } from "@diskmesh/api/director";
import { TestDirector } from "@diskmesh/director/testing";
import { InvalidStateError, NotFoundError, TimeoutError } from "@diskmesh/domain";
import { expect } from "chai";
import { certificateEnvironment, typeCommand } from "./mesh/type-command.js";

const CLOUD = "azs: [{name: z1}]\ndisk_types: [{name: small, disk_size: 1}]\n";
const MANIFEST = "name: web\ninstance_groups: [{name: db, instances: 1, azs: [z1], persistent_disk: 1}]\n";

/** Types each command that errors about possible orphans name. */
describe("possible orphans and the diskmesh command", () => {
  let director: TestDirector;

  before(async () => {
    director = await TestDirector.start();
    await director.configs.updateConfig({ type: "cloud", content: CLOUD });
  });
  after(() => director?.stop());

  async function typed(line: string) {
    const environment = certificateEnvironment(director.certs.files("operator"));
    return typeCommand(line.split(" "), { ...environment, DISKMESH_DIRECTOR: director.address }, director.folder);
  }
  async function done(line: string): Promise<string> {
    const { code, out, err } = await typed(line);
    expect(code, `${line}: ${out}${err}`).to.equal(0);
    return out;
  }
  const listed = async () => (await director.deployments.listPossibleOrphans({})).possibleOrphans;
  /** Returns the part of a row of `diskmesh orphans` behind the word `diskmesh`. */
  const cures = async () =>
    [...(await done("orphans")).matchAll(/diskmesh ((?:delete|forget)-orphan \S+)/g)].map(([, cure = ""]) => cure);

  it("none -> says so; an unknown token -> an error that names the list", async () => {
    expect((await typed("orphans")).err).to.contain("no possible orphans");
    for (const command of ["delete-orphan", "forget-orphan"]) {
      const { code, err } = await typed(`${command} never`);
      expect([code, err]).to.deep.equal([2, err]);
      expect(err).to.contain("no possible orphan with the token never: `diskmesh orphans` lists them");
    }
  });

  it("a VM, a disk and a snapshot with a CID -> the command in their row deletes them", async () => {
    const { cpi } = director;
    await director.deployManifest(MANIFEST);
    await director.snapshots.takeSnapshots({ deployment: "web", wait: true });
    await director.configs.updateConfig({ type: "cpi", content: "cpis: [{name: east, type: memory}]\n" });
    const [snapshotCid = ""] = cpi.snapshots.keys();
    // The recorded CPI denies to have the snapshot, and the other one fails.
    cpi.failNext("deleteSnapshot", new NotFoundError("no such snapshot"));
    cpi.failNext("deleteSnapshot", new InvalidStateError("away"));
    await director.snapshots.deleteSnapshots({ deployment: "web", snapshotCid, wait: true });
    cpi.failNext("deleteVm", new InvalidStateError("away"));
    await director.deployments.deleteDeployment({ deployment: "web", force: true, wait: true });
    const [disk] = cpi.disks.values();
    if (disk !== undefined) disk.vmCid = "";
    cpi.failNext("deleteDisk", new InvalidStateError("away"));
    await director.deployments.deleteOrphanedDisk({ diskCid: disk?.diskCid ?? "", force: true, wait: true });
    expect((await listed()).map(({ kind }) => kind)).to.have.members([
      OrphanKind.DISK,
      OrphanKind.SNAPSHOT,
      OrphanKind.VM,
    ]);
    for (const cure of await cures()) expect(await done(cure), cure).to.match(/^DONE: deleted (vm|disk|snapshot) /);
    const left = [cpi.vms, cpi.disks, cpi.snapshots].map(({ size }) => size);
    expect([...left, (await listed()).length]).to.deep.equal([0, 0, 0, 0]);
  });

  it("a VM without a CID -> not deleted by a command; forgotten by the command in its row", async () => {
    const { cpi } = director;
    await director.configs.deleteConfig({ type: "cpi" }).catch(() => {});
    cpi.findsByToken = false;
    cpi.failNext("createVm", new TimeoutError("no answer"), "after");
    await director.deployManifest(MANIFEST);
    const [orphan] = await listed();
    const { code, err } = await typed(`delete-orphan ${orphan?.token}`);
    expect(code).to.equal(2);
    expect(err).to.contain(`look in the infrastructure for a vm with agent id ${orphan?.token}`);
    const [cure = ""] = await cures();
    expect(cure).to.equal(`forget-orphan ${orphan?.token}`);
    expect(await done(cure)).to.contain(`forgot vm ${orphan?.token} of db/`);
    expect(await listed()).to.deep.equal([]);
    expect(cpi.vms.size).to.equal(1);
  });
});
