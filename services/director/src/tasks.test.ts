import { SubjectKind } from "@diskmesh/api/common";
import { LockType, type Task, TaskOutputType, TaskState, TaskType } from "@diskmesh/api/director";
import { InvalidArgumentError, InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { manifest, TestDirector } from "./testing/test-director.js";

const WANTED = { diskPoolName: "fast", sizeBytes: 1024 * 1024 };
/** Generous, because a busy machine answers late. */
const ANSWER_MARGIN_MS = 10_000;

describe("tasks", () => {
  let director: TestDirector;
  let first: string;
  let second: string;
  let nextDisk = 0;
  let name: string;

  before(async () => {
    const tuning = { queues: { workers: { dynamic_disks: 2 } }, tasks: { answerMarginMs: ANSWER_MARGIN_MS } };
    director = await TestDirector.start({ tuning });
    [first, second] = (await director.deploy("web", 2)) as [string, string];
  });
  after(() => director?.stop());
  beforeEach(() => {
    name = `disk-${++nextDisk}`;
  });

  async function startProvide(diskName: string, instanceId: string): Promise<number> {
    const { task } = await director.disks.provideDynamicDisk({ ...WANTED, diskName, instanceId });
    return task?.taskId ?? 0;
  }
  const stateOf = async (taskId: number): Promise<string> => (await director.task(taskId)).state;

  it("a hanging deploy -> does not delay a disk task", async () => {
    const gate = director.cpi.gate("createVm", "before");
    const { task } = await director.deployments.deploy({ manifest: manifest("slow", 1) });
    await gate.reached;
    expect((await director.provide(name, first)).state).to.equal(TaskState.DONE);
    expect(await stateOf(task?.taskId ?? 0)).to.equal(TaskState.PROCESSING);
    gate.release();
    expect((await director.ended(task?.taskId ?? 0)).state).to.equal(TaskState.DONE);
  });

  it("12 tasks behind one that hangs -> occupy no worker, `why` names the lock, its holder and its step, and continue once that is cancelled", async () => {
    const gate = director.cpi.gate("attachDisk", "before");
    const held = await startProvide(name, first);
    await gate.reached;
    const waiting = await Promise.all(
      Array.from({ length: 12 }, (_, index) => startProvide(`${name}-${index}`, first)),
    );
    expect((await director.provide(`${name}-other`, second)).state).to.equal(TaskState.DONE);
    for (const taskId of waiting) expect(await stateOf(taskId)).to.equal(TaskState.QUEUED);
    const { locks } = await director.locks.listLocks({});
    expect(locks.map(({ type, resource, taskId }) => ({ type, resource, taskId }))).to.deep.equal([
      { type: LockType.INSTANCE, resource: first, taskId: held },
      { type: LockType.DISK, resource: name, taskId: held },
    ]);
    expect(locks[0]?.waitingTaskIds).to.have.members(waiting);
    // The longest CPI call with its retries, plus a minute.
    expect(locks[0]?.expireTime?.getTime()).to.be.closeTo(Date.now() + 122_000, 20_000);
    for (const taskId of waiting) {
      const causes = await director.why(SubjectKind.TASK, taskId);
      const reasons = ["WAITS_FOR_LOCK", "LOCK_HELD", "CPI_AT_WORK", "AT_WORK"];
      expect(causes.map(({ reason }) => reason).slice(0, reasons.length)).to.deep.equal(reasons);
      const [waits, lock, call] = causes;
      expect(waits?.message)
        .to.contain(first)
        .and.to.match(new RegExp(`which task ${held} .*holds$`));
      expect(lock?.message).to.contain("12 tasks wait for it");
      expect(call?.message).to.match(/has not answered attachDisk/);
      expect(call?.cures.map(({ command }) => command)).to.deep.equal([`diskmesh cancel ${held}`]);
    }
    await director.tasks.cancelTask({ taskId: held });
    expect(await director.ended(held)).to.include({ state: TaskState.CANCELLED });
    for (const taskId of waiting)
      expect(await director.ended(taskId)).to.include({ state: TaskState.DONE, attempts: 1 });
    expect((await director.locks.listLocks({})).locks).to.deep.equal([]);
  });

  it("wait on a task that takes longer than the call -> returns the task before the deadline", async () => {
    const gate = director.cpi.gate("createDisk", "before");
    const started = Date.now();
    const { task } = await director.disks.provideDynamicDisk(
      { ...WANTED, diskName: name, instanceId: first, wait: true },
      { deadlineMs: ANSWER_MARGIN_MS + 3_000 },
    );
    expect(task?.state).to.equal(TaskState.PROCESSING);
    // The call waited, and returned before its deadline.
    expect(Date.now() - started).to.be.at.least(2_500);
    gate.release();
    expect((await director.ended(task?.taskId ?? 0)).state).to.equal(TaskState.DONE);
  });

  it("cancelled while it waits for a lock -> cancelled at once, and leaves the lock's queue", async () => {
    const gate = director.cpi.gate("createDisk", "before");
    const held = await startProvide(name, first);
    await gate.reached;
    const waiting = await startProvide(`${name}-waiting`, first);
    await eventually(
      async () => (await director.locks.listLocks({})).locks[0]?.waitingTaskIds.includes(waiting) ?? false,
    );
    const { task } = await director.tasks.cancelTask({ taskId: waiting });
    expect(task).to.include({ state: TaskState.CANCELLED, result: "cancelled by operator" });
    expect((await director.locks.listLocks({})).locks[0]?.waitingTaskIds).to.deep.equal([]);
    gate.release();
    expect((await director.ended(held)).state).to.equal(TaskState.DONE);
  });

  it("cancelled during a CPI call -> the call is ended first; an unknown outcome is reported", async () => {
    const gate = director.cpi.gate("createDisk", "after");
    const taskId = await startProvide(name, first);
    await gate.reached;
    const waiting = await startProvide(name, first);
    await director.tasks.cancelTask({ taskId });
    const task = await director.ended(taskId);
    expect(task.state).to.equal(TaskState.CANCELLED);
    expect(task.result).to.match(/^cancelled by operator; CPI createDisk failed: .*the director ended the call/);
    // The next task continues with the disk that the cancelled task created.
    expect((await director.ended(waiting)).state).to.equal(TaskState.DONE);
    expect(new Set(director.cpi.calls.filter((call) => call.startsWith("createDisk"))).size).to.equal(
      director.cpi.disks.size,
    );
  });

  it("cancelled during a CPI call that does not end -> keeps its locks until the call ends", async () => {
    director.cpi.endsCalls = false;
    const gate = director.cpi.gate("createDisk", "before");
    const taskId = await startProvide(name, first);
    await gate.reached;
    expect((await director.tasks.cancelTask({ taskId })).task?.state).to.equal(TaskState.CANCELLING);
    expect((await director.tasks.cancelTask({ taskId })).task?.state).to.equal(TaskState.CANCELLING);
    const waiting = await startProvide(name, first);
    expect((await director.locks.listLocks({})).locks.map((lock) => lock.taskId)).to.deep.equal([taskId, taskId]);
    gate.release();
    // The call completed although the task was cancelled.
    expect(await director.ended(taskId)).to.include({ state: TaskState.CANCELLED, result: "cancelled by operator" });
    expect((await director.ended(waiting)).state).to.equal(TaskState.DONE);
    director.cpi.endsCalls = true;
  });

  it("cancelled while the dispatcher does not end its call -> aborted after a timeout, and reported", async function () {
    leaveToVerify(this);
    director.cpi.endsCalls = false;
    const gate = director.cpi.gate("createDisk", "before");
    const taskId = await startProvide(name, first);
    await gate.reached;
    await director.tasks.cancelTask({ taskId });
    const task = await director.ended(taskId);
    expect(task.state).to.equal(TaskState.CANCELLED);
    expect(task.result).to.match(/^cancelled by operator; CPI createDisk failed: .* was cancelled/);
    gate.release();
    director.cpi.endsCalls = true;
    expect(await director.ended(await startProvide(name, first))).to.include({ state: TaskState.DONE });
  });

  it("cancel of an ended or unknown task -> refused", async () => {
    const task = await director.provide(name, first);
    const refused = await rejection(director.tasks.cancelTask({ taskId: task.taskId }));
    expect(refused).to.be.instanceOf(InvalidStateError).with.property("message").that.contains("has ended (done)");
    await rejection(director.tasks.cancelTask({ taskId: 999_999 }), NotFoundError);
  });

  it("watched by many from different indexes -> each receives its part as it comes, and the end", async () => {
    const gate = director.cpi.gate("attachDisk", "before");
    const taskId = await startProvide(name, first);
    await gate.reached;
    const watching = Array.from({ length: 20 }, () => director.watch(taskId));
    let seen = 0;
    const early = (async () => {
      for await (const { update } of director.tasks.watchTask({ taskId, fromIndex: 1 })) {
        if (update?.$case === "event") expect(update.value.index).to.equal(1 + seen);
        seen++;
      }
    })();
    await eventually(() => seen === 2);
    gate.release();
    const all = await Promise.all(watching);
    expect(all[0]).to.deep.equal([
      "Creating disk: started",
      "Creating disk: finished",
      "Attaching disk: started",
      "Attaching disk: finished",
      "Telling agent: started",
      "Telling agent: finished",
      "ended TASK_STATE_DONE",
    ]);
    for (const lines of all) expect(lines).to.deep.equal(all[0]);
    await early;
    expect(seen).to.equal(6);
    expect(await director.watch(taskId)).to.deep.equal(all[0]);
  });

  it("a failed step -> its event and the task's result contain the reason", async () => {
    director.cpi.failNext("createDisk", new InvalidStateError("the moon is full"));
    const task = await director.provide(name, first);
    expect(task.result).to.equal("CPI createDisk failed: the moon is full");
    const messages: string[] = [];
    for await (const { update } of director.tasks.watchTask({ taskId: task.taskId })) {
      if (update?.$case === "event") messages.push(update.value.message);
    }
    const why = "CPI createDisk failed: the moon is full";
    expect(messages).to.deep.equal(["", why, why]);
    const { lines, complete } = await director.tasks.getTaskOutput({ taskId: task.taskId, type: TaskOutputType.EVENT });
    expect(complete).to.equal(true);
    const [started, failed, error] = lines.map((line) => JSON.parse(line));
    expect(started).to.deep.include({
      stage: "Creating disk",
      tags: [],
      total: 0,
      index: 1,
      state: "started",
      data: {},
    });
    expect(failed).to.deep.include({ index: 1, state: "failed", progress: 100, data: { error: why } });
    expect(error).to.deep.include({ error: { code: 100, message: why } });
  });

  it("list -> tasks that end or start meanwhile change no later page", async () => {
    for (let count = 0; count < 3; count++) await director.provide(name, "nobody");
    const failed = { states: [TaskState.ERROR], pageSize: 1 };
    const { tasks, nextPageToken } = await director.tasks.listTasks(failed);
    await director.provide(name, "nobody");
    const after = await director.tasks.listTasks({ ...failed, pageToken: nextPageToken });
    expect(after.tasks[0]?.taskId).to.equal(Number(tasks[0]?.taskId) - 1);
    await rejection(
      director.tasks.listTasks({ pageSize: 1, pageToken: nextPageToken }),
      InvalidArgumentError,
      "other filters",
    );
  });

  it("list -> newest first, in pages, by state and deployment", async () => {
    await director.provide(name, "nobody");
    const ids: number[] = [];
    for (let pageToken = ""; ; ) {
      const page = await director.tasks.listTasks({ pageSize: 7, pageToken });
      ids.push(...page.tasks.map((task) => task.taskId));
      pageToken = page.nextPageToken;
      if (pageToken === "") break;
    }
    expect(ids).to.deep.equal([...ids].sort((a, b) => b - a));
    expect(ids.at(-1)).to.equal(1);
    const failed = await director.tasks.listTasks({
      states: [TaskState.ERROR],
    });
    expect(failed.tasks[0]?.taskId).to.equal(ids[0]);
    expect(new Set(failed.tasks.map((task) => task.state))).to.deep.equal(new Set([TaskState.ERROR]));
    const ofSlow = await director.tasks.listTasks({ deployment: "slow" });
    expect(ofSlow.tasks.map((task) => task.type)).to.deep.equal([TaskType.UPDATE_DEPLOYMENT]);
  });
});

describe("the output of a task", () => {
  let director: TestDirector;
  let first: string;

  before(async () => {
    director = await TestDirector.start();
    [first] = (await director.deploy("web", 1)) as [string];
  });
  after(() => director?.stop());

  it("keeps its lines whenever the director is killed, and ends with the task", async () => {
    const told: string[] = [];
    let taskId = 0;
    // All gates exist from the start, because a starting director may pass the next step before the test sees the
    // start.
    const methods = ["createDisk", "attachDisk", "setDiskMetadata"] as const;
    for (const gate of methods.map((method) => director.cpi.gate(method, "after"))) {
      if (taskId === 0) {
        const wanted = { ...WANTED, diskName: "kept", instanceId: first, metadata: { a: 1 } };
        taskId = (await director.disks.provideDynamicDisk(wanted)).task?.taskId ?? 0;
      }
      await gate.reached;
      await eventually(async () => {
        const { lines } = await director.tasks.getTaskOutput({ taskId, type: TaskOutputType.EVENT });
        expect(lines.length).to.be.above(told.length);
        expect(lines.slice(0, told.length)).to.deep.equal(told);
        told.push(...lines.slice(told.length));
      });
      await director.process.kill();
      const starting = director.process.start();
      gate.release();
      await starting;
    }
    expect((await director.ended(taskId)).state).to.equal(TaskState.DONE);
    // Earlier lines stay the same wherever the task is by now, and after another restart.
    for (let restarts = 0; restarts < 2; restarts++) {
      const { lines, complete } = await director.tasks.getTaskOutput({ taskId, type: TaskOutputType.EVENT });
      expect(lines.slice(0, told.length)).to.deep.equal(told);
      expect(complete).to.equal(true);
      expect(JSON.parse(lines.at(-1) ?? "{}")).to.include({ stage: "Telling agent", state: "finished" });
      told.splice(0, told.length, ...lines);
      await director.process.restart();
    }
    expect(await director.task(taskId)).to.include({ state: TaskState.DONE, attempts: 4 });
    await rejection(director.tasks.cancelTask({ taskId }), InvalidStateError);
    await rejection(director.tasks.resumeTask({ taskId }), InvalidStateError);
  });
});

describe("limits of tasks", () => {
  const LIMITS = { tasks: { maxKeptTasks: 10 }, queues: { queueLengths: { dynamic_disks: 5 } } };
  let director: TestDirector;
  let first: string;

  before(async () => {
    director = await TestDirector.start({ tuning: LIMITS });
    [first] = (await director.deploy("web", 1)) as [string];
  });
  after(() => director?.stop());

  const start = async (diskName: string): Promise<Task> =>
    (await director.disks.provideDynamicDisk({ ...WANTED, diskName, instanceId: first })).task as Task;

  it("too many unended tasks -> refused", async () => {
    const gate = director.cpi.gate("createDisk", "before");
    const ids = [];
    for (let index = 0; index < 5; index++) ids.push((await start("d")).taskId);
    const refused = await start("d").catch((error: Error) => error.message);
    expect(refused).to.contain("the queue dynamic_disks already has 5 unfinished tasks");
    gate.release();
    for (const taskId of ids) await director.ended(taskId);
  });

  it("many ended tasks -> the oldest are deleted, with their events", async function () {
    leaveToVerify(this);
    for (let index = 0; index < 15; index++) await director.provide("e", first);
    const tasks = await eventually(async () => {
      const page = await director.tasks.listTasks({});
      expect(page.tasks.length).to.be.at.most(11);
      return page.tasks;
    });
    expect(tasks.length).to.be.within(10, 11);
    const oldest = tasks.at(-1)?.taskId ?? 0;
    expect(oldest).to.be.greaterThan(1);
    await rejection(director.watch(1), NotFoundError);
  });
});
