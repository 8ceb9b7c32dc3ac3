import { TaskState } from "@diskmesh/api/director";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { openState } from "../testing/open-state.js";
import { TestDirector } from "../testing/test-director.js";
import type { CpiJobContext } from "./context.js";
import { CidGivenTwiceError, refuseGivenTwice } from "./given-cids.js";

const cloud = (kind: string): string =>
  `azs: [{name: z1}]\ndisk_types: [{name: fast, disk_size: 64, cloud_properties: {kind: ${kind}}}]\n`;
const manifest = (name: string, more = ""): string =>
  `name: ${name}\ninstance_groups:\n- {name: db, azs: [z1], instances: 1${more}}\n`;
const DISK = ", persistent_disk_type: fast";

it("a CID that another CPI returned -> accepted; returned by the same CPI under a former name -> refused", async () => {
  const { tablet } = await openState();
  const cpis = [
    { name: "east", migratedFrom: ["orient"] },
    { name: "west", migratedFrom: [] },
  ];
  const context = { configs: { cpi: { current: () => ({ cpis }) } } } as unknown as CpiJobContext;
  const place = { deployment: "web", group: "db", instanceId: "i", index: 0, diskCid: "d", az: "", cpi: "orient" };
  const snapshot = { ...place, token: "t", snapshotCid: "s", takenByTaskId: 1, createdAtMs: 0 };
  await tablet.transact((tx) => tx.snapshots.put(snapshot));
  const refuse = (cpi: string, cid: string) =>
    tablet.read((tables) => refuseGivenTwice(context, tables, { kind: "snapshot", cpi, cid }));
  await refuse("west", "s");
  await refuse("east", "other");
  await rejection(refuse("east", "s"), CidGivenTwiceError, /CPI `east` returned the snapshot CID `s`/);
  await tablet.close();
});

for (const findsByToken of [false, true])
  describe(`a CPI that returns a CID twice${findsByToken ? ", with lookup by token" : ""}`, () => {
    let director: TestDirector;
    let victim: string;

    before(async () => {
      director = await TestDirector.start();
      director.cpi.findsByToken = findsByToken;
      await director.configs.updateConfig({ type: "cloud", content: cloud("a") });
      await deploy(manifest("victim", DISK));
      victim = (await instanceOf("victim"))?.instanceId ?? "";
      await director.provide("of-victim", victim);
    });
    after(() => director?.stop());
    beforeEach(() => {
      director.cpi.calls.length = 0;
    });
    afterEach(async () => {
      director.cpi.cidsToGive.clear();
      const { task } = await director.deployments.deleteDeployment({ deployment: "web", wait: true });
      expect(task?.state).to.equal(TaskState.DONE, task?.result);
      expect(director.cpi.vms.has(await vmCid()), "the victim's VM is there").to.equal(true);
      for (const cid of await diskCids()) {
        expect(director.cpi.disks.has(cid), cid).to.equal(true);
        expect(deletions()).not.to.include(`deleteDisk ${cid}`);
      }
    });

    const deploy = async (text: string) => (await director.deployments.deploy({ manifest: text, wait: true })).task;
    const instanceOf = async (deployment: string) =>
      (await director.deployments.listInstances({ deployment })).instances[0];
    const vmCid = async () => (await instanceOf("victim"))?.vmCid ?? "";
    const diskCids = async () => {
      const { disks } = await director.deployments.listPersistentDisks({ deployment: "victim" });
      const dynamic = (await director.disks.getDynamicDisk({ diskName: "of-victim" })).disk;
      return [...disks, dynamic].map((disk) => disk?.diskCid ?? "");
    };
    const deletions = () => director.cpi.calls.filter((call) => call.startsWith("delete"));
    const orphans = async () => (await director.deployments.listPossibleOrphans({})).possibleOrphans;

    it("a VM -> the task fails and names the present owner; nothing is deleted; with the CPI repaired -> a VM", async () => {
      const cid = await vmCid();
      director.cpi.cidsToGive.set("createVm", cid);
      const task = await deploy(manifest("web"));
      expect(task?.state).to.equal(TaskState.ERROR);
      expect(task?.result).to.contain(
        `the default CPI returned the vm CID \`${cid}\`, which already belongs to the vm of db/${victim} in deployment \`victim\`: nothing was deleted`,
      );
      expect(await instanceOf("web")).to.include({ vmCid: "", vmState: "VM_STATE_NONE" });
      expect(deletions()).to.deep.equal([]);
      expect((await orphans()).at(-1)).to.include({ kind: "ORPHAN_KIND_VM", deployment: "web", taskId: task?.taskId });
      director.cpi.cidsToGive.clear();
      expect((await deploy(manifest("web")))?.state).to.equal(TaskState.DONE);
    });

    it("a dynamic or persistent disk that has the CID of another disk -> the task fails, and nothing is deleted", async () => {
      await deploy(manifest("web"));
      const { instanceId = "" } = (await instanceOf("web")) ?? {};
      for (const cid of await diskCids()) {
        director.cpi.cidsToGive.set("createDisk", cid);
        const provided = await director.provide("of-web", instanceId);
        expect(provided.state).to.equal(TaskState.ERROR);
        expect(provided.result).to.contain(`returned the disk CID \`${cid}\``).and.to.contain("`victim`");
        expect((await director.delete("of-web")).state).to.equal(TaskState.DONE);
        const deployed = await deploy(manifest("web", DISK));
        expect(deployed?.result).to.contain(`returned the disk CID \`${cid}\``);
        await deploy(manifest("web"));
      }
      expect(deletions()).to.deep.equal([]);
    });

    it("a changed disk that gets the CID of another disk -> the task fails, and both stay unchanged", async () => {
      await deploy(manifest("web", DISK));
      const [cid = ""] = await diskCids();
      director.cpi.cidsToGive.set("updateDisk", cid);
      await director.configs.updateConfig({ type: "cloud", content: cloud("b") });
      const task = await deploy(manifest("web", DISK));
      await director.configs.updateConfig({ type: "cloud", content: cloud("a") });
      expect(task?.result).to.contain(`returned the disk CID \`${cid}\``);
      expect(deletions()).to.deep.equal([]);
    });

    it("a snapshot -> the task fails, and the present snapshot is not deleted", async () => {
      await director.snapshots.takeSnapshots({ deployment: "victim", wait: true });
      const [cid = ""] = director.cpi.snapshots.keys();
      await deploy(manifest("web", DISK));
      director.cpi.cidsToGive.set("snapshotDisk", cid);
      const { task } = await director.snapshots.takeSnapshots({ deployment: "web", wait: true });
      expect(task?.result).to.contain(`returned the snapshot CID \`${cid}\``);
      await director.snapshots.deleteSnapshots({ deployment: "web", wait: true });
      expect([...director.cpi.snapshots.keys()]).to.deep.equal([cid]);
    });
  });
