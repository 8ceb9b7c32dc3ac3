import { AdminServiceDefinition } from "@diskmesh/api/common";
import { Authentication, type Event, ResurrectionServiceDefinition, TaskState } from "@diskmesh/api/director";
import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { type CallOptions, createClient } from "@diskmesh/rpc";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { CLOUD_CONFIG, TestDirector } from "../testing/test-director.js";

describe("audit of the director's methods", () => {
  let director: TestDirector;
  let instanceId: string;

  before(async () => {
    director = await TestDirector.start();
    [instanceId] = (await director.deploy("web", 1)) as [string];
  });
  after(() => director?.stop());

  const eventsOf = async (requestId: string): Promise<Event[]> =>
    (await director.events.listEvents({ requestId, pageSize: 100 })).events;
  const linesOf = (requestId: string) =>
    director.process.logs
      .split("\n")
      .filter((line) => line.includes('"audit":"call"') && line.includes(`"requestId":"${requestId}"`))
      .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>);
  const told = (event: Event | undefined) =>
    event && [event.action, event.objectType, event.objectName, event.answer].join(" ");

  const selection = { deployment: "web", group: "db" };
  const changes: readonly [method: string, change: (of: CallOptions) => Promise<unknown>, event: string][] = [
    [
      "UpdateConfig",
      (of) => director.configs.updateConfig({ type: "mine", name: "x", content: "a: secret-1" }, of),
      "create config/mine x OK",
    ],
    ["DeleteConfig", (of) => director.configs.deleteConfig({ type: "mine", name: "x" }, of), "delete config/mine x OK"],
    ["Ignore", (of) => director.lifecycle.ignore({ selection }, of), "ignore instance web/db OK"],
    ["Unignore", (of) => director.lifecycle.unignore({ selection }, of), "unignore instance web/db OK"],
    [
      "CreateBackup",
      async (of) => {
        const { address, certs } = director;
        const options = { address, tls: certs.files("operator"), serverRole: "director" } as const;
        const client = createClient(AdminServiceDefinition, { ...options, defaultDeadlineMs: 60_000 });
        try {
          // The event is durable before the backup's first bytes are sent.
          for await (const _ of client.createBackup({}, of))
            expect(await eventsOf(of.requestId ?? "")).to.have.length(1);
        } finally {
          client.close();
        }
      },
      "create backup  OK",
    ],
    [
      "UpdateResurrection",
      async (of) => {
        const { address, certs } = director;
        const options = { address, tls: certs.files("operator"), serverRole: "director" } as const;
        const client = createClient(ResurrectionServiceDefinition, { ...options, defaultDeadlineMs: 60_000 });
        await client.updateResurrection({ wanted: { enabled: false } }, of).finally(() => client.close());
      },
      "disable resurrection * OK",
    ],
  ];
  for (const [method, change, expected] of changes)
    it(`${method} -> one event with the caller and the call, and one log line`, async () => {
      const requestId = `audit-${method}`;
      await change({ requestId });
      const events = await eventually(async () => {
        const found = await eventsOf(requestId);
        expect(found).not.to.deep.equal([]);
        return found;
      });
      expect(events.map(told)).to.deep.equal([expected]);
      expect(events[0]).to.include({ user: "operator", requestId, authentication: Authentication.CERTIFICATE });
      await eventually(() => expect(linesOf(requestId)).to.have.length(1));
      expect(linesOf(requestId)[0]).to.include({ status: "OK", caller: "operator" });
      expect(JSON.stringify(linesOf(requestId))).not.to.include("secret-1");
    });

  it("a method that starts a task -> the task's begin and end events have its id", async () => {
    const requestId = "audit-task";
    const wanted = { diskName: "d", instanceId, diskPoolName: "fast", sizeBytes: 1, wait: true };
    const { task } = await director.disks.provideDynamicDisk(wanted, { requestId });
    expect(task?.state).to.equal(TaskState.DONE);
    await eventually(async () => {
      const found = (await eventsOf(requestId)).filter(({ objectType }) => objectType === "dynamic_disk");
      expect(found.map(told)).to.deep.equal(["provide dynamic_disk d OK", "provide dynamic_disk d "]);
    });
    await eventually(() => expect(linesOf(requestId)).to.have.length(1));
    expect(linesOf(requestId)[0]).to.deep.include({
      taskId: task?.taskId,
      request: { diskName: "d", instanceId, diskPoolName: "fast", sizeBytes: 1, wait: true },
    });
    const { events } = await director.events.listEvents({ thing: "d", answer: "OK" });
    expect(events.map(told)).to.include("provide dynamic_disk d OK");
    expect(events.every(({ answer }) => answer === "OK")).to.equal(true);
  });

  it("a cancelled task -> an event for the cancel, and the outcome in the task's end event", async () => {
    const gate = director.cpi.gate("detachDisk", "before");
    const { task } = await director.disks.detachDynamicDisk({ diskName: "d" }, { requestId: "audit-detach" });
    const taskId = task?.taskId ?? 0;
    await gate.reached;
    await director.tasks.cancelTask({ taskId }, { requestId: "audit-cancel" });
    gate.release();
    await director.ended(taskId);
    await eventually(async () =>
      expect((await eventsOf("audit-cancel")).map(told)).to.deep.equal([`cancel task ${taskId} OK`]),
    );
    await eventually(async () => {
      const [end] = (await eventsOf("audit-detach")).filter(({ objectType }) => objectType === "dynamic_disk");
      expect(end?.answer).to.match(/^(CANCELLED|OK)$/);
    });
  });

  it("a refused call -> an event with the reason and a log line; a malformed call -> a log line only", async () => {
    const refused = { requestId: "audit-refused" };
    await rejection(director.lifecycle.stop({ selection: { deployment: "none" } }, refused), NotFoundError);
    await eventually(async () =>
      expect((await eventsOf("audit-refused")).map(told)).to.deep.equal(["refuse call stopInstances NOT_FOUND"]),
    );
    expect((await eventsOf("audit-refused"))[0]?.context).to.deep.equal({
      selection: '{"deployment":"none"}',
    });
    await eventually(() => expect(linesOf("audit-refused").map(({ reason }) => reason)).to.deep.equal(["NOT_FOUND"]));
    await rejection(
      director.configs.updateConfig({ type: "cloud", content: "a: [" }, { requestId: "audit-malformed" }),
    );
    await eventually(() => expect(linesOf("audit-malformed")).to.have.length(1));
    expect(await eventsOf("audit-malformed")).to.deep.equal([]);
    await rejection(director.tasks.resumeTask({ taskId: 1 }, { requestId: "audit-resume" }), InvalidStateError);
    await eventually(async () =>
      expect((await eventsOf("audit-resume")).map(told)).to.deep.equal(["refuse call resumeTask INVALID_STATE"]),
    );
  });

  it("a call refused again and again -> events and log lines up to a limit per minute", async () => {
    const requestId = "audit-flood";
    const ask = () => rejection(director.tasks.cancelTask({ taskId: 9_999 }, { requestId }));
    for (const _ of [1, 2, 3, 4, 5]) await Promise.all(Array.from({ length: 80 }, ask));
    await eventually(() => expect(linesOf(requestId)).to.have.length.within(100, 240));
    let told = 0;
    for (let pageToken = ""; ; ) {
      const page = await director.events.listEvents({ requestId, pageSize: 100, pageToken });
      told += page.events.length;
      pageToken = page.nextPageToken;
      if (pageToken === "") break;
    }
    // The limit is 60 per minute, and the minute may end while the test sends.
    expect(told).to.be.within(1, 120);
  });

  it("a call that changes nothing -> no event", async () => {
    await director.configs.updateConfig({ type: "cloud", content: CLOUD_CONFIG }, { requestId: "audit-unchanged" });
    expect(await eventsOf("audit-unchanged")).to.deep.equal([]);
  });
});
