import { silentLogger, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { systemClock } from "@diskmesh/service";
import type { EventLog } from "@diskmesh/tablet";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import type { DirectorTablet } from "../store/stored-schema.js";
import { openState } from "../testing/open-state.js";
import { Events } from "./events.js";

const ASKER = { user: "ann", requestId: "r-1", traceId: "", authentication: "token" };

describe("events noted in the transaction that performs a change", () => {
  let tablet: DirectorTablet;
  let eventLog: EventLog;
  const open: Events[] = [];

  beforeEach(async () => {
    ({ tablet, eventLog } = await openState());
  });
  afterEach(async () => {
    for (const events of open.splice(0)) await events.close();
    await eventLog.close();
    await tablet.close();
  });

  /** `append` replaces the write of event lines, e.g. to make it fail. */
  function start(append: EventLog["append"] = (stream, lines) => eventLog.append(stream, lines)): Events {
    const log = { append, read: eventLog.read.bind(eventLog), bounds: eventLog.bounds.bind(eventLog) };
    const { trim } = eventLog;
    const events = new Events({
      eventLog: { ...log, trim: trim.bind(eventLog) },
      tablet,
      maxCount: 100,
      clock: systemClock,
      log: silentLogger,
    });
    open.push(events);
    return events;
  }
  const note = (events: Events, name: string) =>
    tablet.transact((tx) => events.note(tx, { action: "update", objectType: "config/cloud", objectName: name }, ASKER));
  const listed = async (events: Events): Promise<string[]> => {
    const { next } = await events.bounds();
    const found = await events.readBelow(next);
    return found.map(({ eventId, objectName, user, requestId, answer }) =>
      [eventId, objectName, user, requestId, answer].join(" "),
    );
  };
  const untold = () => tablet.read(({ untoldEvents }) => untoldEvents.size);

  it("a note is written as an event once it is durable, and then deleted", async () => {
    const events = start();
    await note(events, "a");
    expect(await listed(events)).to.deep.equal(["1 a ann r-1 OK"]);
    await eventually(async () => expect(await untold()).to.equal(0));
  });

  it("a refused transaction -> its note yields no event", async () => {
    const events = start();
    const refused = tablet.transact((tx) => {
      events.note(tx, { action: "update", objectType: "config/cloud", objectName: "a" }, ASKER);
      throw new UnavailableError("no");
    });
    await rejection(refused, UnavailableError);
    expect(await listed(events)).to.deep.equal([]);
  });

  it("the director dies before the event is written -> the next director writes it", async () => {
    const dying = start(() => Promise.reject(new UnavailableError("it dies")));
    await note(dying, "a");
    await dying.flush();
    expect(await untold()).to.equal(1);
    expect(await listed(start())).to.deep.equal(["1 a ann r-1 OK"]);
    await eventually(async () => expect(await untold()).to.equal(0));
  });

  it("the director dies after the event was written, before it knew -> the event exists once", async () => {
    const dying = start(async (stream, lines) => {
      await eventLog.append(stream, lines);
      throw new UnavailableError("it dies");
    });
    await note(dying, "a");
    await dying.flush();
    expect(await untold()).to.equal(1);
    expect(await listed(start())).to.deep.equal(["1 a ann r-1 OK"]);
    await eventually(async () => expect(await untold()).to.equal(0));
  });

  describe("the begin event of a task's action", () => {
    const deed = { action: "attach", objectType: "disk", objectName: "disk-1" };
    const begin = (events: Events) => tablet.transact((tx) => events.noteBegin(tx, deed, { taskId: 0 }));
    const all = async (events: Events) => events.readBelow((await events.bounds()).next);

    it("it is durable with the intent; the event has one end, the first", async () => {
      const events = start();
      const begun = await begin(events);
      begun.end({ error: "no" });
      begun.end({});
      const told = await all(events);
      expect(told.map(({ eventId, parentId, answer, error }) => [eventId, parentId, answer, error])).to.deep.equal([
        [2, 1, "ERROR", "no"],
        [1, 0, "", ""],
      ]);
      await eventually(async () => expect(await untold()).to.equal(0));
    });

    it("the director dies before it is written -> the next director writes it", async () => {
      const dying = start(() => Promise.reject(new UnavailableError("it dies")));
      await begin(dying);
      await dying.flush();
      expect((await all(start())).map(({ action, objectName }) => [action, objectName])).to.deep.equal([
        ["attach", "disk-1"],
      ]);
    });
  });

  it("events cannot be written for long -> the oldest notes are deleted, so the store stays bounded", async () => {
    const events = start(() => Promise.reject(new UnavailableError("no room")));
    for (let written = 0; written < 12_000; written += 500)
      await tablet.transact((tx) => {
        for (let i = 0; i < 500; i++)
          events.note(tx, { action: "update", objectType: "config/cloud", objectName: "a" }, ASKER);
      });
    expect(await untold()).to.equal(10_000);
  });
});
