import { type Task, TaskState } from "@diskmesh/api/director";
import { InvalidArgumentError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { TestDirector } from "../../testing/test-director.js";

describe("undelete of a dynamic disk", () => {
  let director: TestDirector;
  let instanceId: string;
  let nextDisk = 0;
  let name: string;

  before(async () => {
    director = await TestDirector.start({ tuning: { maxDeletedDisks: 2 } });
    [instanceId] = (await director.deploy("web", 1)) as [string];
  });
  after(() => director?.stop());
  beforeEach(() => {
    name = `gone-${++nextDisk}`;
  });

  const undelete = async (diskName: string, diskCid = ""): Promise<Task> =>
    (await director.disks.undeleteDynamicDisk({ diskName, diskCid, wait: true })).task as Task;
  const diskOf = async (diskName: string) => (await director.disks.getDynamicDisk({ diskName })).disk;
  /** Makes and deletes a disk; returns it with the function that gives the CPI its data back. */
  const deleted = async (diskName: string) => {
    await director.provide(diskName, instanceId, { metadata: { app: "db" } });
    await director.detach(diskName);
    const disk = await diskOf(diskName);
    const diskCid = disk?.diskCid ?? "";
    const data = director.cpi.disks.get(diskCid);
    await director.delete(diskName);
    const giveBack = () => data && director.cpi.disks.set(diskCid, data);
    return { disk, diskCid, giveBack };
  };

  it("its CPI has the data again -> the same disk under its name, also after a restart; again -> a success", async () => {
    const { disk, diskCid, giveBack } = await deleted(name);
    await director.restartTuned({ maxDeletedDisks: 2 });
    giveBack();
    const task = await undelete(name);
    expect(task).to.include({ state: TaskState.DONE, type: "TASK_TYPE_UNDELETE_DYNAMIC_DISK" });
    expect(task.result).to.equal(`disk \`${name}\` is back, detached, with the CID \`${diskCid}\``);
    expect(await diskOf(name)).to.deep.equal(disk);
    expect((await undelete(name)).result).to.equal(`disk \`${name}\` is not deleted`);
    expect((await director.provide(name, instanceId)).state).to.equal(TaskState.DONE);
    expect((await diskOf(name))?.diskCid).to.equal(diskCid);
    await director.detach(name);
  });

  it("its CPI keeps no deleted disks -> fails, and says who does", async () => {
    const { diskCid } = await deleted(name);
    const { state, result } = await undelete(name);
    expect(state).to.equal(TaskState.ERROR);
    expect(result).to.equal(
      `the default CPI has no disk \`${diskCid}\` any more: only the registry of a fleet CPI keeps deleted disks, and for the time that its config has`,
    );
  });

  it("two deleted disks of the name -> the one deleted last, or the one of the CID", async () => {
    const [first, last] = [await deleted(name), await deleted(name)];
    first.giveBack();
    last.giveBack();
    expect((await undelete(name)).result).to.contain(last.diskCid);
    expect((await undelete(name, first.diskCid)).result).to.contain(
      `is that of another disk now, \`${last.diskCid}\`: delete that one first`,
    );
    await director.delete(name);
    expect((await undelete(name, first.diskCid)).result).to.contain(first.diskCid);
  });

  it("the oldest of too many -> forgotten", async () => {
    const names = ["a", "b", "c"].map((each) => `${name}-${each}`);
    for (const each of names) (await deleted(each)).giveBack();
    const [oldest = "", ...others] = names;
    expect((await undelete(oldest)).result).to.equal(`no deleted disk \`${oldest}\` is remembered`);
    for (const each of others) expect((await undelete(each)).result).to.contain("is back");
  });

  it("bad input: a name that no disk had, a malformed name, a malformed CID", async () => {
    expect((await undelete("never")).result).to.equal("no deleted disk `never` is remembered");
    await rejection(undelete("../never"), InvalidArgumentError);
    await rejection(undelete(name, "a\nb"), InvalidArgumentError, "disk_cid");
  });

  it("of a deployment that is gone -> fails, and says what to do", async () => {
    const [other] = (await director.deploy("other", 1)) as [string];
    await director.provide(name, other);
    await director.detach(name);
    const { diskCid } = (await diskOf(name)) ?? {};
    const data = director.cpi.disks.get(diskCid ?? "");
    await director.delete(name);
    if (data) director.cpi.disks.set(diskCid ?? "", data);
    await director.deployments.deleteDeployment({ deployment: "other", wait: true });
    expect((await undelete(name)).result).to.equal(
      `disk \`${name}\` was of deployment \`other\`, which is gone: deploy that again first`,
    );
  });
});
