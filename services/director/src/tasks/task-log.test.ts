import { silentLogger } from "@diskmesh/domain";
import { Changes, systemClock } from "@diskmesh/service";
import { type EventLog, openEventLog } from "@diskmesh/tablet";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { TaskLog, type TaskLogOptions } from "./task-log.js";

const EVENT = {
  timeMs: 1,
  stage: "Creating disk",
  task: "d",
  state: "started",
  message: "",
  tags: [],
  total: 0,
  index: 1,
} as const;

describe("the output logs of tasks", () => {
  let eventLog: EventLog;

  beforeEach(() => {
    eventLog = openEventLog(temporaryFolder(), "director");
  });
  afterEach(() => eventLog.close());

  const taskLog = (limits: Partial<TaskLogOptions>) =>
    new TaskLog({
      eventLog,
      changes: new Changes<number>(),
      maxEventsPerTask: 1_000,
      maxOutputLinesPerTask: 1_000,
      maxOutputBytesPerTask: 1_000_000,
      maxWaitingOutputBytes: 1_000_000,
      stopping: new AbortController().signal,
      clock: systemClock,
      log: silentLogger,
      ...limits,
    });

  it("show no terminal sequence of a CPI or an agent; results are kept as they are", async () => {
    const log = taskLog({});
    const odd = "\u001b[2J";
    log.append(1, { ...EVENT, task: odd, state: "failed", message: odd });
    for (const type of ["cpi", "debug", "result"] as const) log.appendLine(1, type, odd);
    await log.flush(1);
    const [event] = await log.read({ taskId: 1 }, 0, 1);
    expect(event).to.include({ task: "\\u001b[2J", message: "\\u001b[2J" });
    const lines = async (type: "cpi" | "debug" | "result") => (await log.readLines({ taskId: 1 }, type, 0, 1))[0];
    expect([await lines("cpi"), await lines("debug"), await lines("result")]).to.deep.equal([
      "\\u001b[2J",
      "\\u001b[2J",
      odd,
    ]);
  });

  it("end at a limit in bytes, with a note", async () => {
    const log = taskLog({ maxOutputBytesPerTask: 5_000 });
    for (let i = 0; i < 20; i++) log.appendLine(1, "cpi", `${i} ${"é".repeat(500)}`);
    for (let i = 0; i < 200; i++) log.append(1, EVENT);
    await log.flush(1);
    const lines = await log.readLines({ taskId: 1 }, "cpi", 0, 100);
    expect(lines).to.have.length(5);
    expect(lines.at(-1)).to.contain("this output has reached its limit");
    const events = await log.readLines({ taskId: 1 }, "event", 0, 1_000);
    expect(events.join("").length).to.be.within(4_500, 5_500);
    expect(events.at(-1)).to.contain("this task has reached its limit of events");
    const kept = [...lines, ...events].reduce((sum, line) => sum + Buffer.byteLength(line), 0);
    expect(log.sizeBytes(1)).to.equal(kept);
  });

  it("are written in batches, soon, or at once when a caller waits", async () => {
    const appends: string[] = [];
    const counted: TaskLogOptions["eventLog"] = {
      append: (stream, lines) => {
        appends.push(`${stream}: ${lines.length}`);
        return eventLog.append(stream, lines);
      },
      read: (stream, page) => eventLog.read(stream, page),
      drop: (stream) => eventLog.drop(stream),
    };
    const log = taskLog({ eventLog: counted });
    const say = async (taskId: number, lines: number) => {
      for (let i = 0; i < lines; i++) {
        log.appendLine(taskId, "debug", "x");
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    let taskId = 0;
    // Repeated until the appends were faster than the gathering time, because slower lines need not share a batch.
    for (let tookMs = Number.POSITIVE_INFINITY; tookMs > 50; ) {
      appends.length = 0;
      taskId += 1;
      const startedAtMs = performance.now();
      await say(taskId, 5);
      tookMs = performance.now() - startedAtMs;
      await log.flush(taskId);
    }
    const five = `task-${taskId}-debug: 5`;
    expect(appends).to.deep.equal([five]);
    await say(taskId, 1);
    await eventually(() => expect(appends).to.deep.equal([five, `task-${taskId}-debug: 1`]));
    await log.flush(taskId);
    expect(await log.readLines({ taskId }, "debug", 0, 100)).to.have.length(6);
  });

  it("of an ended task -> end where it ended, whatever a former director still writes", async () => {
    const log = taskLog({});
    for (let i = 0; i < 3; i++) log.append(1, EVENT);
    await log.flush(1);
    const ended = { taskId: 1, eventCount: log.eventCount(1) };
    expect(ended.eventCount).to.equal(3);
    await eventLog.append("task-1", ["{}"]);
    expect(await log.readLines(ended, "event", 0, 100)).to.have.length(3);
    expect(await log.readLines(ended, "event", 2, 100)).to.have.length(1);
    expect(await log.readLines(ended, "event", 3, 100)).to.deep.equal([]);
    expect(await log.readLines(ended, "event", 9, 100)).to.deep.equal([]);
  });

  it("count the steps of each stage of a task", () => {
    const log = taskLog({});
    const steps = ["a", "b", "a"].map((stage) => log.nextStep(1, stage));
    expect([...steps, log.nextStep(2, "a")]).to.deep.equal([1, 1, 2, 1]);
  });

  it("wait for a full storage within a limit for all tasks, and continue afterwards", async () => {
    const log = taskLog({ maxWaitingOutputBytes: 5_000 });
    for (let taskId = 1; taskId <= 10; taskId++) log.appendLine(taskId, "debug", "x".repeat(1_000));
    await Promise.all(Array.from({ length: 10 }, (_, i) => log.flush(i + 1)));
    log.appendLine(10, "debug", "later");
    await log.flush(10);
    const found = await Promise.all(
      Array.from({ length: 10 }, (_, i) => log.readLines({ taskId: i + 1 }, "debug", 0, 10)),
    );
    expect(found.map((lines) => lines.length)).to.deep.equal([1, 1, 1, 1, 1, 0, 0, 0, 0, 1]);
  });
});
