import type { Event, ListEventsRequest } from "@diskmesh/api/director";
import { InvalidArgumentError, InvalidStateError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { CLOUD_CONFIG, TestDirector } from "../testing/test-director.js";

describe("audit events of the director", () => {
  let director: TestDirector;
  let instanceId: string;

  before(async () => {
    director = await TestDirector.start({ tuning: { maxEvents: 100 } });
    [instanceId] = (await director.deploy("web", 1)) as [string];
  });
  after(() => director?.stop());

  async function events(request: Partial<ListEventsRequest>): Promise<Event[]> {
    const all: Event[] = [];
    for (let pageToken = ""; ; ) {
      const page = await director.events.listEvents({ pageSize: 3, ...request, pageToken });
      all.push(...page.events);
      pageToken = page.nextPageToken;
      if (pageToken === "") return all;
    }
  }
  const shown = (all: readonly Event[]): string[] =>
    all.map((event) => {
      const { action, objectType, objectName, parentId, error } = event;
      return `${action} ${objectType} ${objectName}${parentId === 0 ? "" : ` of ${parentId}`}${error && `: ${error}`}`;
    });

  it("events name the user, the action, the object and the task, newest first", async () => {
    const task = await director.provide("d", instanceId);
    const { disk } = await director.disks.getDynamicDisk({ diskName: "d" });
    const all = await eventually(async () => {
      const found = await events({ taskId: task.taskId });
      expect(found).to.have.length(6);
      return found;
    });
    const [end, attached, attaching, created, creating, begin] = all.map(({ eventId }) => eventId);
    expect([...all].map(({ eventId }) => eventId).sort((a, b) => b - a)).to.deep.equal(
      all.map(({ eventId }) => eventId),
    );
    expect(shown(all)).to.deep.equal([
      `provide dynamic_disk d of ${begin}`,
      `attach disk ${disk?.diskCid} of ${attaching}`,
      `attach disk ${disk?.diskCid} of ${begin}`,
      `create disk ${disk?.diskCid} of ${creating}`,
      `create disk  of ${begin}`,
      "provide dynamic_disk d",
    ]);
    expect([end, attached, created].every((id) => (id ?? 0) > (begin ?? 0))).to.equal(true);
    const instance = `db/${instanceId}`;
    expect(all[1]).to.deep.include({ user: "operator", deployment: "web", instance, taskId: task.taskId });
    expect(all[1]?.context).to.deep.equal({ disk_name: "d", vm_cid: disk?.vmCid });
    expect(all[1]?.eventTime?.getTime()).to.be.closeTo(Date.now(), 60_000);
    const ofVm = await events({ objectType: "vm" });
    expect(ofVm.map((event) => [event.action, event.instance, event.deployment])).to.deep.equal([
      ["create", instance, "web"],
      ["create", instance, "web"],
    ]);
    expect(ofVm[0]?.objectName).to.equal(disk?.vmCid);
  });

  it("a failed action -> its event contains the error", async () => {
    director.cpi.failNext("detachDisk", new InvalidStateError("the moon is full"));
    const { taskId } = await director.detach("d");
    const failed = await eventually(async () => {
      const found = (await events({ taskId })).filter(({ error }) => error !== "");
      expect(found).to.have.length(2);
      return found;
    });
    expect(failed.map(({ action, objectType, error }) => [action, objectType, error])).to.deep.equal([
      ["detach", "dynamic_disk", "CPI detachDisk failed: the moon is full"],
      ["detach", "disk", "CPI detachDisk failed: the moon is full"],
    ]);
  });

  it("each field that an event shows can be used as a filter", async () => {
    const all = await events({});
    const [newest] = all as [Event];
    const oldest = all.at(-1) as Event;
    const full = all.find(({ action, objectType }) => action === "attach" && objectType === "disk") as Event;
    expect(await events({ beforeId: newest.eventId })).to.deep.equal(all.slice(1));
    expect(await events({ beforeId: 1 })).to.deep.equal([]);
    const at = newest.eventTime as Date;
    expect(await events({ afterTime: at })).to.deep.equal(all.filter(({ eventTime }) => (eventTime as Date) >= at));
    expect(await events({ beforeTime: at })).to.deep.equal(all.filter(({ eventTime }) => (eventTime as Date) < at));
    for (const field of ["deployment", "instance", "user", "action", "objectType", "objectName", "taskId"] as const) {
      const wanted = full[field];
      expect(wanted, field).to.not.be.oneOf(["", 0]);
      expect(await events({ [field]: wanted }), field).to.deep.equal(all.filter((event) => event[field] === wanted));
    }
    expect(await events({ user: "nobody" })).to.deep.equal([]);
    expect(oldest).to.include({
      action: "create",
      objectType: "config/cloud",
      objectName: "default",
      user: "operator",
    });
    await rejection(director.events.listEvents({ beforeId: -1 }), InvalidArgumentError);
    const { nextPageToken: pageToken } = await director.events.listEvents({ pageSize: 1 });
    await rejection(director.events.listEvents({ pageSize: 1, pageToken, user: "x" }), InvalidArgumentError, "filters");
    await rejection(director.events.listEvents({ pageSize: 1, pageToken: "x" }), InvalidArgumentError, "malformed");
  });

  it("the director is killed -> event ids continue, and a resumed task begins again", async () => {
    const [before] = (await events({})) as [Event];
    const gate = director.cpi.gate("attachDisk", "before");
    const wanted = { diskName: "e", instanceId, diskPoolName: "fast", sizeBytes: 1 };
    const { task } = await director.disks.provideDynamicDisk(wanted);
    await gate.reached;
    await director.process.kill();
    gate.release();
    await director.process.start();
    const taskId = task?.taskId ?? 0;
    await director.ended(taskId);
    const found = await eventually(async () => {
      const found = await events({ taskId, objectType: "dynamic_disk" });
      expect(found.map(({ parentId }) => parentId > 0)).to.deep.equal([true, false, false]);
      return found;
    });
    expect(found.at(-1)?.eventId).to.equal(before.eventId + 1);
  });

  it("more events than the limit -> the oldest are deleted, and ids continue", async () => {
    const [before] = (await events({})) as [Event];
    const changes = Array.from({ length: 130 }, (_, index) => index);
    for (const index of changes)
      await director.configs.updateConfig({ type: "cloud", content: `${CLOUD_CONFIG}# ${index}\n` });
    // The director deletes surplus events in steps of a tenth of the limit, after it has written newer events.
    const all = await eventually(async () => {
      const found = await events({ pageSize: 1_000 });
      expect(found[0]?.eventId).to.equal(before.eventId + changes.length);
      expect(found.length).to.be.within(100, 110);
      return found;
    });
    expect(all.map(({ eventId }) => eventId)).to.deep.equal(all.map((_, index) => (all[0] as Event).eventId - index));
  });
});
