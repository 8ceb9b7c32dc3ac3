import { LockType, PersistentDiskState, TaskState } from "@diskmesh/api/director";
import { TimeoutError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { manifest, TestDirector } from "../testing/test-director.js";

describe("deployments", () => {
  let director: TestDirector;

  before(async () => {
    director = await TestDirector.start();
  });
  after(() => director?.stop());
  beforeEach(async () => {
    for (const deployment of ["web", "ci"]) await director.deployments.deleteDeployment({ deployment, wait: true });
    const { disks } = await director.deployments.listPersistentDisks({ orphaned: true });
    for (const { diskCid } of disks) await director.deployments.deleteOrphanedDisk({ diskCid, wait: true });
    await director.deploy("web", 0);
    director.cpi.calls.length = 0;
  });

  const deploy = async (text: string) => (await director.deployments.deploy({ manifest: text, wait: true })).task;
  const instances = async (deployment: string) => (await director.deployments.listInstances({ deployment })).instances;
  const shown = async (deployment: string) =>
    (await instances(deployment)).map((each) => `${each.group}/${each.index}@${each.az}`);

  it("a deploy -> one VM per instance, spread over the azs; repeated -> no change", async () => {
    const text = manifest("web", 3, ["z1", "z2"]);
    const task = await deploy(text);
    expect(task).to.include({ state: TaskState.DONE, result: "/deployments/web", queue: "TASK_QUEUE_NORMAL" });
    const before = await instances("web");
    expect(await shown("web")).to.deep.equal(["db/0@z1", "db/1@z2", "db/2@z1"]);
    expect(new Set(before.map((each) => each.vmCid))).to.deep.equal(new Set(director.cpi.vms.keys()));
    expect(before[0]?.agentId).to.equal("host-1");
    expect((await deploy(text))?.state).to.equal(TaskState.DONE);
    expect(await instances("web")).to.deep.equal(before);
    const { deployments } = await director.deployments.listDeployments({});
    expect(deployments).to.deep.equal([{ name: "web", manifest: text, teams: [] }]);
  });

  it("a group without azs -> VMs of the default CPI without an az; disks follow; repeated -> no change", async () => {
    const text = "name: web\ninstance_groups: [{name: db, instances: 1, persistent_disk: 64}]\n";
    expect((await deploy(text))?.result).to.equal("/deployments/web");
    expect(await shown("web")).to.deep.equal(["db/0@"]);
    const [instance] = await instances("web");
    expect((await director.provide("data", instance?.instanceId ?? "")).state).to.equal(TaskState.DONE);
    expect((await director.disks.getDynamicDisk({ diskName: "data" })).disk).to.include({
      az: "",
      vmCid: instance?.vmCid,
    });
    const [disk] = (await director.deployments.listPersistentDisks({})).disks;
    expect(disk).to.include({ az: "", state: PersistentDiskState.MOUNTED });
    director.cpi.calls.length = 0;
    expect((await deploy(text))?.state).to.equal(TaskState.DONE);
    expect(director.cpi.calls).to.deep.equal([]);
    // Instances are never moved into an az, so the deploy replaces the instance.
    expect((await deploy(manifest("web", 1)))?.state).to.equal(TaskState.DONE);
    expect(await shown("web")).to.deep.equal(["db/0@z1"]);
  });

  it("migrated_from -> the VM and disk move to the new group with new metadata; repeated -> no change", async () => {
    const group = (name: string, more: string) =>
      `name: web\ninstance_groups: [{name: ${name}, instances: 1, azs: [z1], persistent_disk: 64${more}}]\n`;
    await deploy(group("old", ""));
    const [before] = await instances("web");
    director.cpi.calls.length = 0;
    const text = group("new", ", migrated_from: [{name: old}]");
    expect((await deploy(text))?.result).to.equal("/deployments/web");
    expect(await instances("web")).to.deep.equal([{ ...before, group: "new" }]);
    const { disks } = await director.deployments.listPersistentDisks({});
    expect(disks.map(({ group, state }) => [group, state])).to.deep.equal([["new", PersistentDiskState.MOUNTED]]);
    expect(director.cpi.calls.map((call) => call.split(" ")[0])).to.deep.equal(["setVmMetadata"]);
    expect([...director.cpi.vms.values()][0]?.metadata).to.include({ job: "new", name: `new/${before?.instanceId}` });
    director.cpi.calls.length = 0;
    expect((await deploy(text))?.state).to.equal(TaskState.DONE);
    expect((await deploy(group("new", "")))?.state).to.equal(TaskState.DONE);
    expect(director.cpi.calls).to.deep.equal([]);
  });

  it("scaled in -> the instance's disks are detached, then the VM and the instance are deleted", async () => {
    await deploy(manifest("web", 2));
    const [kept, leaving] = await instances("web");
    await director.provide("data", leaving?.instanceId ?? "");
    director.cpi.calls.length = 0;
    expect((await deploy(manifest("web", 1)))?.state).to.equal(TaskState.DONE);
    expect(await instances("web")).to.deep.equal([kept]);
    expect(director.cpi.calls.map((call) => call.split(" ")[0])).to.deep.equal(["detachDisk", "deleteVm"]);
    expect(director.agent("host-2").calls.at(-1)).to.match(/^remove disk-/);
    expect((await director.disks.getDynamicDisk({ diskName: "data" })).disk).to.include({
      vmCid: "",
      deployment: "web",
    });
    // The disk still exists and can be attached to the remaining instance.
    expect((await director.provide("data", kept?.instanceId ?? "")).state).to.equal(TaskState.DONE);
  });

  it("no free host -> an error that names the instance's group; with a free host -> done", async () => {
    await deploy(manifest("web", 2));
    const failed = await deploy(manifest("ci", 2));
    expect(failed?.state).to.equal(TaskState.ERROR);
    expect(failed?.result).to.contain("no host is free in az z1");
    expect((await instances("ci")).filter((each) => each.vmCid !== "")).to.have.lengthOf(1);
    await deploy(manifest("web", 1));
    expect((await deploy(manifest("ci", 2)))?.state).to.equal(TaskState.DONE);
    expect((await instances("ci")).filter((each) => each.vmCid !== "")).to.have.lengthOf(2);
  });

  it("a deleted deployment -> its VMs and disks are deleted, attached or not; repeated -> already deleted", async () => {
    await deploy(manifest("web", 2));
    const [one, two] = await instances("web");
    await director.provide("a", one?.instanceId ?? "");
    await director.provide("b", two?.instanceId ?? "");
    await director.provide("c", two?.instanceId ?? "");
    await director.detach("c");
    const deleted = await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    expect(deleted.task).to.include({ state: TaskState.DONE, result: "deleted deployment `web`" });
    expect(director.cpi.vms.size).to.equal(0);
    expect(director.cpi.disks.size).to.equal(0);
    expect((await director.disks.listDynamicDisks({})).disks).to.deep.equal([]);
    const again = await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    expect(again.task).to.include({ state: TaskState.DONE, result: "deployment `web` was already deleted" });
    const gone = await director.deployments.listInstances({ deployment: "web" }).catch((error: Error) => error.message);
    expect(gone).to.equal("deployment `web` not found");
  });

  it("a deletion cancelled halfway -> nothing can be added until the deletion is finished", async () => {
    await deploy(manifest("web", 1));
    const gate = director.cpi.gate("deleteVm", "before");
    const { task } = await director.deployments.deleteDeployment({ deployment: "web" });
    await gate.reached;
    await director.tasks.cancelTask({ taskId: task?.taskId ?? 0 });
    gate.release();
    expect((await director.ended(task?.taskId ?? 0)).state).to.equal(TaskState.CANCELLED);
    const refused = await deploy(manifest("web", 1));
    expect(refused?.result).to.contain("deployment `web` is being deleted: repeat the deletion");
    const again = await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    expect(again.task?.state).to.equal(TaskState.DONE);
  });

  it("a leaving instance locked by a disk's task -> the deploy waits, then plans again", async () => {
    await deploy(manifest("web", 2));
    const [, leaving] = await instances("web");
    const gate = director.cpi.gate("createDisk", "before");
    const providing = director.provide("data", leaving?.instanceId ?? "");
    await gate.reached;
    const { task } = await director.deployments.deploy({ manifest: manifest("web", 1) });
    const taskId = task?.taskId ?? 0;
    await eventually(async () => {
      const { locks } = await director.locks.listLocks({});
      return locks.some((lock) => lock.type === LockType.INSTANCE && lock.waitingTaskIds.includes(taskId));
    });
    // The detach is requested before the disk is attached, so it must wait for the lock of the instance, too.
    const detaching = director.detach("data");
    await eventually(async () => (await director.locks.listLocks({})).locks.at(-1)?.waitingTaskIds.length === 1);
    director.cpi.calls.length = 0;
    gate.release();
    expect((await providing).state).to.equal(TaskState.DONE);
    expect(await director.ended(taskId)).to.include({ state: TaskState.DONE, attempts: 1 });
    expect((await detaching).state).to.equal(TaskState.DONE);
    expect(director.cpi.calls.filter((call) => call.startsWith("detachDisk"))).to.have.lengthOf(1);
    expect(await instances("web")).to.have.lengthOf(1);
    expect((await director.locks.listLocks({})).locks).to.deep.equal([]);
  });

  it("two deploys at once with different manifests -> run one after the other, and the last one's manifest stays", async () => {
    const gate = director.cpi.gate("createVm", "before");
    const one = await director.deployments.deploy({ manifest: manifest("web", 1) });
    await gate.reached;
    const two = await director.deployments.deploy({ manifest: manifest("web", 3) });
    expect((await director.task(two.task?.taskId ?? 0)).state).to.equal(TaskState.QUEUED);
    gate.release();
    expect((await director.ended(one.task?.taskId ?? 0)).state).to.equal(TaskState.DONE);
    expect((await director.ended(two.task?.taskId ?? 0)).state).to.equal(TaskState.DONE);
    expect(await instances("web")).to.have.lengthOf(3);
  });

  it("the dispatcher is unreachable when the director starts -> it serves, and runs tasks once the dispatcher is back", async () => {
    await director.process.kill();
    await director.dispatcher.stop();
    await director.process.start();
    await eventually(() =>
      rejection(director.health(1_000), TimeoutError, /NOT_SERVING, because it lacks: dispatcher$/),
    );
    const { task } = await director.deployments.deploy({ manifest: manifest("web", 1) });
    expect((await director.task(task?.taskId ?? 0)).state).to.equal(TaskState.QUEUED);
    await director.dispatcher.start();
    expect((await director.ended(task?.taskId ?? 0)).state).to.equal(TaskState.DONE);
    // Each director fences the dispatcher once, or again after a busy dispatcher seemed unreachable. The first generation
    // made the tablet.
    expect([...new Set(director.dispatcher.fences)]).to.deep.equal([2, 3]);
    await director.health(60_000);
  });

  it("NATS, then the dispatcher go away and come back -> readiness names the missing one, and returns", async () => {
    const parts = [
      ["nats", () => director.nats.kill(), () => director.nats.start()],
      ["dispatcher", () => director.dispatcher.stop(), () => director.dispatcher.start()],
    ] as const;
    for (const [part, end, begin] of parts) {
      await end();
      const why = new RegExp(`NOT_SERVING, because it lacks: ${part}$`);
      await eventually(() => rejection(director.health(1_000), TimeoutError, why));
      await begin();
      await director.health(60_000);
      await eventually(() =>
        expect(director.process.logs)
          .to.contain(`readiness condition lost: ${part} (`)
          .and.to.contain(`readiness condition restored: ${part}`),
      );
    }
    await director.process.waitFor("leading");
  });
});
