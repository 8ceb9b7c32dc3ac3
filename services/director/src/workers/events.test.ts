import { silentLogger } from "@diskmesh/domain";
import { systemClock } from "@diskmesh/service";
import { type EventLog, openEventLog } from "@diskmesh/tablet";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import type { DirectorTablet } from "../stored-schema.js";
import { Events } from "./events.js";

const DEED = { action: "attach", objectType: "disk", objectName: "d" };

describe("what is written of events", () => {
  let eventLog: EventLog;
  let appends: number;
  let events: Events;

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
    const tablet = { watch: () => () => {} } as unknown as DirectorTablet;
    events = new Events({ eventLog: counted, tablet, maxCount: 100, clock: systemClock, log: silentLogger });
  });
  afterEach(async () => {
    await events.close();
    await eventLog.close();
  });

  const stored = () => eventLog.read("events", { from: 0, limit: 100 }).then(({ lines }) => lines.length);

  it("a beginning is at once, an end together with what comes next", async () => {
    const begun = await events.begin(DEED, { taskId: 1 });
    expect([await stored(), appends]).to.deep.equal([1, 1]);
    begun.end({});
    await events.begin(DEED, { taskId: 1 });
    expect([await stored(), appends]).to.deep.equal([3, 2]);
  });

  it("an end with nothing after it is soon", async () => {
    const begun = await events.begin(DEED, { taskId: 1 });
    begun.end({});
    await eventually(async () => expect(await stored()).to.equal(2));
  });

  it("whoever reads, or closes, has all that was told", async () => {
    const begun = await events.begin(DEED, { taskId: 1 });
    begun.end({});
    expect((await events.bounds()).next).to.equal(2);
    (await events.begin(DEED, { taskId: 1 })).end({ error: "the moon is full" });
    await events.close();
    expect(await stored()).to.equal(4);
  });
});
