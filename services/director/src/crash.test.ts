import { TaskState } from "@diskmesh/api/director";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { TestDirector } from "./testing/test-director.js";

/** `crash-places.test.ts` kills a director at each write and call of a task; this has tasks that wait, are cancelled or stopped. */
describe("a director that ends during tasks", () => {
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

  const provide = () =>
    director.disks.provideDynamicDisk({
      diskName: name,
      instanceId: first,
      diskPoolName: "fast",
      sizeBytes: 1024 * 1024,
      metadata: { owner: "ann" },
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
    await eventually(() => expect(director.process.logs).to.include("stop requested by SIGTERM"));
    gate.release();
    expect((await stopping).code).to.equal(0);
    await director.process.start();
    expect(await director.ended(task?.taskId ?? 0)).to.include({ state: TaskState.DONE, attempts: 2 });
  });
});
