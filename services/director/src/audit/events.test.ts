import { silentLogger } from "@diskmesh/domain";
import { systemClock } from "@diskmesh/service";
import { type Change, type EventLog, openEventLog } from "@diskmesh/tablet";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import type { DirectorTablet } from "../store/stored-schema.js";
import { newTask, take } from "../tasks/task.js";
import { Events } from "./events.js";

const DEED = { action: "attach", objectType: "disk", objectName: "d" };

describe("writing of events", () => {
  let eventLog: EventLog;
  let appends: number;
  let events: Events;
  let tell: (changes: readonly Change[]) => void;

  beforeEach(() => {
    eventLog = openEventLog(temporaryFolder(), "director");
    appends = 0;
    const counted = {
      append: (stream: string, lines: readonly string[]) => {
        appends++;
        return eventLog.append(stream, lines);
      },
      read: eventLog.read.bind(eventLog),
      bounds: eventLog.bounds.bind(eventLog),
      trim: eventLog.trim.bind(eventLog),
    };
    const watch = (listener: typeof tell) => {
      tell = listener;
      return () => {};
    };
    const tablet = { watch, read: async () => [] } as unknown as DirectorTablet;
    events = new Events({ eventLog: counted, tablet, maxCount: 100, clock: systemClock, log: silentLogger });
  });
  afterEach(async () => {
    await events.close();
    await eventLog.close();
  });

  const stored = () => eventLog.read("events", { from: 0, limit: 100 }).then(({ lines }) => lines.length);
  const taskBegins = () => {
    const job = { type: "detach_dynamic_disk", diskName: "d" } as const;
    const fields = { taskId: 1, job, description: "", queue: "dynamic_disks", user: "ann", deployment: "web" } as const;
    const document = take(newTask(fields, 0), 0, { again: false });
    tell([{ table: "tasks", key: "1", document }]);
  };
  const listed = async () => {
    const { next } = await events.bounds();
    const found = await events.readBelow(next);
    return found.reverse().map(({ eventId, parentId, action, user }) => `${eventId} ${user} ${action} of ${parentId}`);
  };

  it("a begin event is written at once, an end event together with the next events", async () => {
    const begun = await events.begin(DEED, { taskId: 1 });
    expect([await stored(), appends]).to.deep.equal([1, 1]);
    begun.end({});
    await events.begin(DEED, { taskId: 1 });
    expect([await stored(), appends]).to.deep.equal([3, 2]);
  });

  it("a task's begin event is written with the task's first action, which names it as parent", async () => {
    events.record(DEED, { user: "bob" });
    await events.flush();
    taskBegins();
    const begun = await events.begin(DEED, { taskId: 1 });
    expect([await stored(), appends]).to.deep.equal([3, 2]);
    begun.end({});
    await events.begin(DEED, { taskId: 1 });
    expect(await listed()).to.deep.equal([
      "1 bob attach of 0",
      "2 ann detach of 0",
      "3 ann attach of 2",
      "4 ann attach of 3",
      "5 ann attach of 2",
    ]);
  });

  it("a task without audited actions -> its begin event is written soon, too", async () => {
    taskBegins();
    await eventually(async () => expect(await stored()).to.equal(1));
  });

  it("an opened action -> its begin event is written with the next events, its end event as its child", async () => {
    const opened = events.open(DEED, { user: "ann" });
    opened.end({ taskId: 7 });
    await events.record(DEED, { user: "bob" });
    expect(appends).to.equal(1);
    expect(await listed()).to.deep.equal(["1 ann attach of 0", "2 ann attach of 1", "3 bob attach of 0"]);
  });

  it("an end event without following events is written soon", async () => {
    const begun = await events.begin(DEED, { taskId: 1 });
    begun.end({});
    await eventually(async () => expect(await stored()).to.equal(2));
  });

  it("a reader, and a close, find all recorded events", async () => {
    const begun = await events.begin(DEED, { taskId: 1 });
    begun.end({});
    expect((await events.bounds()).next).to.equal(2);
    (await events.begin(DEED, { taskId: 1 })).end({ error: "the moon is full" });
    await events.close();
    expect(await stored()).to.equal(4);
  });
});
