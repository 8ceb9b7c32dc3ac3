import { TaskState } from "@diskmesh/api/director";
import { type Gate, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { manifest, TestDirector } from "./testing/test-director.js";

/** The director is killed while one call is under way, before or after its effect, and started again. */
describe("a director killed between two steps", () => {
  let director: TestDirector;
  let first: string;
  let nextDisk = 0;
  let name: string;

  before(async () => {
    director = await TestDirector.start();
    [first] = (await director.deploy("web", 1)) as [string];
  });
  after(() => director?.stop());
  beforeEach(() => {
    name = `disk-${++nextDisk}`;
  });

  async function crashAt(gate: Gate, start: () => Promise<{ task: { taskId: number } | undefined }>): Promise<number> {
    const { task } = await start();
    await gate.reached;
    await director.process.kill();
    const starting = director.process.start();
    // The gate opens after the start, so the new director must first wait until the former director's call has ended.
    await starting;
    gate.release();
    return task?.taskId ?? 0;
  }
  const provide = () =>
    director.disks.provideDynamicDisk({
      diskName: name,
      instanceId: first,
      diskPoolName: "fast",
      sizeBytes: 1024 * 1024,
      metadata: { owner: "ann" },
    });

  for (const when of ["before", "after"] as const) {
    it(`deploy, killed ${when} the effect of createVm -> one VM`, async function () {
      if (when === "before") leaveToVerify(this);
      const deployment = `deployment-${when}`;
      const taskId = await crashAt(director.cpi.gate("createVm", when), () =>
        director.deployments.deploy({ manifest: manifest(deployment, 1) }),
      );
      expect(await director.ended(taskId)).to.include({ state: TaskState.DONE, attempts: 2 });
      const { instances } = await director.deployments.listInstances({ deployment });
      expect(instances).to.have.lengthOf(1);
      expect([...director.cpi.vms.keys()]).to.include(instances[0]?.vmCid);
      expect(director.cpi.vms.size).to.equal(2);
      const deleting = await crashAt(director.cpi.gate("deleteVm", when), () =>
        director.deployments.deleteDeployment({ deployment }),
      );
      expect(await director.ended(deleting)).to.include({ state: TaskState.DONE, attempts: 2 });
      expect(director.cpi.vms.size).to.equal(1);
    });
  }

  /** Changes of where a disk is. A move is a detach with an attach queued behind it. */
  const HOST_CHANGES = [
    { what: "attach", method: "attachDisk", from: "", to: "h1" },
    { what: "detach", method: "detachDisk", from: "h1", to: "" },
    { what: "move", method: "detachDisk", from: "h1", to: "h2" },
    { what: "move, already detached", method: "attachDisk", from: "h1", to: "h2" },
  ] as const;
  for (const { what, method, from, to } of HOST_CHANGES)
    for (const when of ["before", "after"] as const)
      it(`${what} of a disk on a host, killed ${when} the effect of ${method} -> done, and nowhere else`, async function () {
        if (when === "after") leaveToVerify(this);
        for (const host of ["h1", "h2"]) director.cpi.addHost(host, "z1");
        await director.disks.provideDynamicDisk({ diskName: name, hostId: "h1", sizeBytes: 1, wait: true });
        const attachmentId = (await director.disks.getDynamicDisk({ diskName: name })).disk?.attachmentId ?? "";
        if (from === "") await director.detach(name);
        const gate = director.cpi.gate(method, when);
        const started = [
          ...(from === ""
            ? []
            : [await director.disks.detachDynamicDisk({ diskName: name, hostId: from, attachmentId })]),
          ...(to === "" ? [] : [await director.disks.attachDynamicDisk({ diskName: name, hostId: to })]),
        ];
        await gate.reached;
        await director.process.kill();
        await director.process.start();
        gate.release();
        for (const { task } of started)
          expect((await director.ended(task?.taskId ?? 0)).state).to.equal(TaskState.DONE);
        const { disk } = await director.disks.getDynamicDisk({ diskName: name });
        expect(disk).to.include({ hostId: to, path: to === "" ? "" : `/memory/${disk?.diskCid}` });
        expect(director.cpi.disks.get(disk?.diskCid ?? "")?.vmCid).to.equal(to === "" ? "" : `host/${to}`);
        expect((await director.locks.listLocks({})).locks).to.deep.equal([]);
        // A late duplicate of the former detach changes nothing.
        await director.disks.detachDynamicDisk({ diskName: name, hostId: from, attachmentId, wait: true });
        expect((await director.disks.getDynamicDisk({ diskName: name })).disk?.hostId).to.equal(to);
        await director.detach(name);
        await director.delete(name);
      });

  it("queued and waiting tasks -> all run after the restart, and all locks are free again", async () => {
    const gate = director.cpi.gate("createDisk", "before");
    const names = Array.from({ length: 8 }, (_, index) => `${name}-${index}`);
    const ids: number[] = [];
    for (const diskName of names) {
      const { task } = await director.disks.provideDynamicDisk({
        diskName,
        instanceId: first,
        diskPoolName: "fast",
        sizeBytes: 1,
      });
      ids.push(task?.taskId ?? 0);
    }
    await gate.reached;
    await director.process.kill();
    gate.release();
    await director.process.start();
    for (const taskId of ids) expect((await director.ended(taskId)).state).to.equal(TaskState.DONE);
    expect((await director.locks.listLocks({})).locks).to.deep.equal([]);
  });

  it("killed while it cancels a task -> the task is cancelled", async function () {
    leaveToVerify(this);
    const gate = director.cpi.gate("createDisk", "after");
    const { task } = await provide();
    await gate.reached;
    await director.tasks.cancelTask({ taskId: task?.taskId ?? 0 });
    await director.process.kill();
    gate.release();
    await director.process.start();
    expect((await director.ended(task?.taskId ?? 0)).state).to.equal(TaskState.CANCELLED);
    // The CPI finds the killed director's object by its token, so there is no second object.
    const disksBefore = director.cpi.disks.size;
    expect((await director.delete(name)).state).to.equal(TaskState.DONE);
    expect(director.cpi.disks.size).to.equal(disksBefore - 1);
  });

  it("SIGTERM while a task runs -> a clean exit, and the next director finishes the task", async () => {
    const gate = director.cpi.gate("attachDisk", "before");
    const { task } = await provide();
    await gate.reached;
    const stopping = director.process.stop();
    gate.release();
    expect((await stopping).code).to.equal(0);
    await director.process.start();
    expect(await director.ended(task?.taskId ?? 0)).to.include({ state: TaskState.DONE, attempts: 2 });
  });
});
