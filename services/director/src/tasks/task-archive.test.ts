import { silentLogger } from "@diskmesh/domain";
import { Changes, systemClock } from "@diskmesh/service";
import type { EventLog } from "@diskmesh/tablet";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { taskKey } from "../store/schema.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { restored, type Task, type TaskState } from "../store/task.js";
import { openState } from "../testing/open-state.js";
import { EndedTasks } from "./ended-tasks.js";
import { end, newTask, type TaskEnd } from "./task.js";
import { TaskArchive } from "./task-archive.js";
import { TaskLog } from "./task-log.js";

describe("the archive of ended tasks", () => {
  let tablet: DirectorTablet;
  let eventLog: EventLog;
  let endedTasks: EndedTasks;
  let archive: TaskArchive | undefined;

  beforeEach(async () => {
    ({ tablet, eventLog } = await openState());
    endedTasks = new EndedTasks(eventLog);
  });
  afterEach(async () => {
    await archive?.close();
    await eventLog.close();
    await tablet.close();
  });

  function start(limits: { readonly maxKeptTasks?: number; readonly maxKeptOutputBytes?: number } = {}): void {
    const taskLog = new TaskLog({
      eventLog,
      changes: new Changes<number>(),
      maxEventsPerTask: 100,
      maxOutputLinesPerTask: 100,
      maxOutputBytesPerTask: 1_000,
      maxWaitingOutputBytes: 1_000,
      stopping: new AbortController().signal,
      clock: systemClock,
      log: silentLogger,
    });
    archive = new TaskArchive({
      tablet,
      endedTasks,
      taskLog,
      maxKeptTasks: 100,
      maxKeptOutputBytes: 1_000_000,
      ...limits,
      clock: systemClock,
      log: silentLogger,
    });
  }

  const SUCCESS: TaskEnd = { event: "succeed", result: "" };
  function taskThat(taskId: number, { how = SUCCESS, deployment = "", outputSizeBytes = 0 }: Ended = {}): Task {
    const job = { type: "detach_dynamic_disk", diskName: "d" } as const;
    const task = newTask({ taskId, job, description: "", queue: "dynamic_disks", user: "", deployment }, 0);
    return { ...end(task, how, 1), outputSizeBytes };
  }
  async function addEnded(taskId: number, ended: Ended = {}): Promise<void> {
    await eventLog.append(`task-${taskId}`, ["event"]);
    await tablet.transact((tx) => tx.tasks.put(taskThat(taskId, ended)));
  }
  const inTablet = (): Promise<number[]> =>
    tablet.read((tables) => [...tables.tasks.entries()].map(({ taskId }) => taskId));
  const page = async (filter: { states?: TaskState[]; deployment?: string }, after = "", limit = 100) =>
    (await endedTasks.page({ states: new Set(filter.states), deployment: filter.deployment }, { after, limit })).map(
      ({ taskId }) => taskId,
    );
  const puts = (...taskIds: number[]) =>
    eventually(async () => {
      expect(await page({})).to.deep.equal(taskIds);
      expect(await inTablet()).to.deep.equal([]);
    });

  it("tasks leave the tablet unchanged", async () => {
    const fail: TaskEnd = { event: "fail", result: "no" };
    await addEnded(1, { how: fail, deployment: "a" });
    const job = { type: "detach_dynamic_disk", diskName: "d" } as const;
    const live = newTask({ taskId: 2, job, description: "", queue: "normal", user: "", deployment: "a" }, 0);
    await tablet.transact((tx) => tx.tasks.put(live));
    await tablet.transact((tx) => {
      for (let taskId = 3; taskId <= 250; taskId++) tx.tasks.put(taskThat(taskId, { deployment: "b" }));
    });
    start({ maxKeptTasks: 1_000 });
    await eventually(async () => expect(await inTablet()).to.deep.equal([2]));
    expect(await endedTasks.get(1)).to.deep.equal(taskThat(1, { how: fail, deployment: "a" }));
    expect(await endedTasks.get(2)).to.equal(undefined);
    expect(await page({}, "", 1_000)).to.have.length(249);
    await addEnded(251);
    await eventually(async () => expect(await page({}, "", 1)).to.deep.equal([251]));
  });

  it("lists newest first, by state and deployment, also when one name begins with another", async () => {
    const fail: TaskEnd = { event: "fail", result: "" };
    start();
    await addEnded(1, { deployment: "a" });
    await addEnded(2, { deployment: "a/3/b", how: fail });
    await addEnded(3, { deployment: "a", how: fail });
    await addEnded(4);
    await addEnded(5, { deployment: "a" });
    await puts(5, 4, 3, 2, 1);
    expect(await page({ deployment: "a" })).to.deep.equal([5, 3, 1]);
    expect(await page({ deployment: "a/3/b" })).to.deep.equal([2]);
    expect(await page({ states: ["error", "queued"] })).to.deep.equal([3, 2]);
    expect(await page({ states: ["queued"] })).to.deep.equal([]);
    expect(await page({ states: ["done", "error"], deployment: "a" }, taskKey(5), 1)).to.deep.equal([3]);
    expect(await page({}, taskKey(4), 2)).to.deep.equal([3, 2]);
  });

  it("is limited by bytes of outputs, and keeps the newest", async () => {
    for (let taskId = 1; taskId <= 4; taskId++) await addEnded(taskId, { outputSizeBytes: 300 });
    start({ maxKeptOutputBytes: 1_000 });
    await addEnded(5, { outputSizeBytes: 300 });
    await puts(5, 4, 3);
    await eventually(async () => expect(await eventLog.bounds("task-2")).to.deep.equal({ first: 0, next: 0 }));
    expect((await eventLog.read("task-3", { from: 0, limit: 1 })).lines).to.deep.equal(["event"]);
    for (const taskId of [6, 7, 8]) await addEnded(taskId, { outputSizeBytes: 50 });
    await puts(8, 7, 6, 5, 4);
    await addEnded(9, { outputSizeBytes: 5_000 });
    await puts(9);
  });

  it("the next director counts it again, and finishes interrupted deletions", async () => {
    start({ maxKeptTasks: 3 });
    for (const taskId of [1, 2, 3]) await addEnded(taskId, { outputSizeBytes: 1 });
    await puts(3, 2, 1);
    await archive?.close();
    const cut = new Error("killed");
    await endedTasks.drop([taskThat(1)], () => Promise.reject(cut)).catch((error) => expect(error).to.equal(cut));
    expect(await endedTasks.get(1)).to.equal(undefined, "nobody sees a task whose outputs are being deleted");
    expect((await eventLog.bounds("task-1")).next).to.equal(1);
    start({ maxKeptTasks: 3 });
    await eventually(async () => expect((await eventLog.bounds("task-1")).next).to.equal(0));
    for (const taskId of [4, 5]) await addEnded(taskId);
    await puts(5, 4, 3);
  });

  it("tasks from before a restore -> replaced by the tasks that now have their ids", async () => {
    start();
    await addEnded(1, { how: { event: "fail", result: "then" }, deployment: "a", outputSizeBytes: 5 });
    await puts(1);
    const job = { type: "detach_dynamic_disk", diskName: "d" } as const;
    const held = restored(newTask({ taskId: 1, job, description: "", queue: "normal", user: "", deployment: "a" }, 0));
    await tablet.transact((tx) => tx.tasks.put({ ...end({ ...held, state: "processing" }, SUCCESS, 9) }));
    await puts(1);
    expect((await endedTasks.get(1))?.state).to.equal("done");
    expect(await page({ states: ["error"] })).to.deep.equal([]);
    expect(await page({ states: ["error"], deployment: "a" })).to.deep.equal([]);
  });

  function counting(read: number[]): EndedTasks {
    return new EndedTasks({
      addRecords: (records) => eventLog.addRecords(records),
      removeRecords: (keys) => eventLog.removeRecords(keys),
      readRecords: async (range) => {
        const records = await eventLog.readRecords(range);
        read.push(records.length);
        return records;
      },
    });
  }

  it("a task that ends beside others -> is added without reading theirs", async () => {
    await endedTasks.add([taskThat(1), taskThat(9), taskThat(11), taskThat(100)]);
    const read: number[] = [];
    expect(await counting(read).add([taskThat(10)])).to.deep.equal({ added: [taskThat(10)], replaced: [] });
    expect(read).to.deep.equal([0]);
    expect(await endedTasks.get(9)).to.deep.equal(taskThat(9));
  });

  it("a page -> costs only its own tasks, whatever their total number", async () => {
    const read: number[] = [];
    const counted = counting(read);
    const all = Array.from({ length: 2_000 }, (_, i) =>
      taskThat(i + 1, { how: i % 2 ? SUCCESS : { event: "fail", result: "" }, deployment: i % 4 ? "a" : "b" }),
    );
    for (let from = 0; from < all.length; from += 500) await endedTasks.add(all.slice(from, from + 500));
    const costOf = async (filter: { states?: TaskState[]; deployment?: string }): Promise<number> => {
      read.length = 0;
      const options = { after: taskKey(1_000), limit: 10 };
      await counted.page({ states: new Set(filter.states), deployment: filter.deployment }, options);
      return read.reduce((sum, count) => sum + count, 0);
    };
    expect(await costOf({})).to.equal(10);
    expect(await costOf({ states: ["error"] })).to.equal(10);
    expect(await costOf({ deployment: "a" })).to.be.at.most(40);
    expect(await costOf({ states: ["cancelled"], deployment: "b" })).to.equal(0);
  });
});

interface Ended {
  readonly how?: TaskEnd;
  readonly deployment?: string;
  readonly outputSizeBytes?: number;
}
