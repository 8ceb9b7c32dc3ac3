import { silentLogger } from "@diskmesh/domain";
import { Changes, systemClock } from "@diskmesh/service";
import { type EventLog, openEventLog, openStorage, Tablet } from "@diskmesh/tablet";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { end, newTask } from "../model/task.js";
import { type DirectorTablet, storedSchema } from "../stored-schema.js";
import { Retention } from "./retention.js";
import { TaskLog } from "./task-log.js";

describe("the retention of ended tasks", () => {
  let tablet: DirectorTablet;
  let eventLog: EventLog;
  let retention: Retention;

  beforeEach(async () => {
    const folder = temporaryFolder();
    tablet = await Tablet.open({
      name: "director",
      schema: storedSchema,
      storage: openStorage(folder, "director"),
      address: "",
    });
    eventLog = openEventLog(folder, "director");
    // Of a former director.
    for (let taskId = 1; taskId <= 4; taskId++) await addEnded(taskId, 300);
    const taskLog = new TaskLog({
      eventLog,
      changes: new Changes<number>(),
      eventsPerTask: 100,
      outputLinesPerTask: 100,
      outputSizeBytesPerTask: 1_000,
      pendingOutputSizeBytes: 1_000,
      stopping: new AbortController().signal,
      clock: systemClock,
      random: Math.random,
      log: silentLogger,
    });
    retention = new Retention({
      tablet,
      taskLog,
      retentionCount: 100,
      retainedOutputSizeBytes: 1_000,
      log: silentLogger,
    });
  });
  afterEach(async () => {
    await retention.close();
    await eventLog.close();
    await tablet.close();
  });

  async function addEnded(taskId: number, outputSizeBytes: number): Promise<void> {
    await eventLog.append(`task-${taskId}`, ["event"]);
    await tablet.transact((tx) => {
      const job = { type: "detach_dynamic_disk", diskName: "d" } as const;
      const task = newTask({ taskId, job, description: "", queue: "dynamic_disks", user: "", deployment: "" }, 0);
      tx.tasks.put({ ...end(task, { event: "succeed", result: "" }, 1), outputSizeBytes });
    });
  }
  const left = (): Promise<number[]> =>
    tablet.read((tables) => [...tables.tasks.entries()].map(({ taskId }) => taskId));
  const leaves = (...taskIds: number[]) => eventually(async () => expect(await left()).to.deep.equal(taskIds));

  it("is so many bytes of outputs, of the newest", async () => {
    await addEnded(5, 300);
    await leaves(5, 4, 3);
    expect(await eventLog.read("task-2", { from: 0, limit: 1 })).to.deep.equal({ lines: [], next: 0 });
    await addEnded(6, 50);
    await addEnded(7, 50);
    await addEnded(8, 50);
    await leaves(8, 7, 6, 5, 4);
    await addEnded(9, 5_000);
    await leaves(9);
  });
});
