import { AdminServiceDefinition, SubjectKind } from "@diskmesh/api/common";
import type { ExportDiskRequest } from "@diskmesh/api/internal";
import { DiskIo, devicesWithBytes, ExportKind, HostState, PublicationState } from "@diskmesh/api/registry";
import { InvalidArgumentError, InvalidStateError, MIB_BYTES, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { SharedRegistry } from "./testing/shared-registry.js";
import type { TestAgent } from "./testing/test-agent.js";

const LIMITS = { readIops: 100, writeIops: 50, readBytesPerSecond: 0, writeBytesPerSecond: 2_000_000, burstSeconds: 3 };

describe("changes of published disks", () => {
  const fleet = SharedRegistry.forAllTests();

  /** Returns the export orders that the agent gets from now on. While `refusing` has an error, it refuses them. */
  function ordersTo(agent: TestAgent): { orders: ExportDiskRequest[]; refusing: Error | undefined } {
    const seen: { orders: ExportDiskRequest[]; refusing: Error | undefined } = { orders: [], refusing: undefined };
    agent.beforeExport = async (request) => {
      seen.orders.push(request);
      if (seen.refusing) throw seen.refusing;
    };
    return seen;
  }

  const publication = async () => (await fleet.registry.disk("x")).publication;
  const confirmed = () =>
    eventually(async () => {
      const now = await publication();
      expect(now).to.include({ state: PublicationState.PUBLISHED, changePending: false, attempts: 0, lastError: "" });
      return now;
    });

  it("limits, kind of export and read-only reach the agent; the other access is refused", async () => {
    const { operator } = fleet.registry;
    const seen = ordersTo(await fleet.readyAgent("h1", ["d1"]));
    await fleet.createDisk("x", { limits: LIMITS, exportKind: ExportKind.NBD });
    const publish = (readOnly: boolean) => operator.publishDisk({ diskId: "x", hostId: "h1", readOnly });
    const { disk } = await publish(true);
    expect(disk?.publication).to.include({ readOnly: true, changePending: false });
    const exported = { limits: LIMITS, exportKind: ExportKind.NBD, readOnly: true, revision: 0 };
    expect(seen.orders.at(-1)).to.deep.include(exported);
    await rejection(publish(false), InvalidStateError, "as read-only, not as writable: unpublish it first");
    expect((await publish(true)).disk?.publication?.sessionNumber).to.equal(disk?.publication?.sessionNumber);
  });

  it("a disk shows the I/O that its host reports, of that host alone", async () => {
    const agent = await fleet.readyAgent("h1", ["d1"]);
    await fleet.createDisk("x");
    const io = DiskIo.fromPartial({ reads: 1, readBytes: 4096, writes: 2, writtenBytes: 8192, errors: 3 });
    const totals = { reads: 1, readBytes: 4096, writes: 2, writtenBytes: 8192 };
    const heartbeat = () => agent.heartbeat("h1", agent.bootId, { io: totals, disks: [{ diskId: "x", io }] });
    await heartbeat();
    expect((await fleet.registry.disk("x")).io).to.equal(undefined);
    await fleet.registry.operator.publishDisk({ diskId: "x", hostId: "h1" });
    await heartbeat();
    expect((await fleet.registry.disk("x")).io).to.deep.equal(io);
  });

  it("new limits reach the agent in the same session, and are retried and shown as pending until it has them", async () => {
    const { operator } = fleet.registry;
    const seen = ordersTo(await fleet.readyAgent("h1", ["d1"]));
    await fleet.createDisk("x");
    const { disk } = await operator.publishDisk({ diskId: "x", hostId: "h1" });
    const { sessionNumber } = disk?.publication ?? {};
    seen.refusing = new UnavailableError("busy now");
    const limited = await operator.setDiskLimits({ diskId: "x", limits: LIMITS });
    expect(limited.disk?.limits).to.deep.equal(LIMITS);
    expect(limited.disk?.publication).to.include({ changePending: true, state: PublicationState.PUBLISHED });
    await eventually(async () => {
      const now = await fleet.registry.disk("x");
      expect(now.publication?.attempts).to.be.above(1);
      expect(now.publication?.lastError).to.contain("busy now");
      expect(now.trouble?.code).to.equal("CHANGE_PENDING");
    });
    const changed = await operator.setDiskLabels({ diskId: "x", labels: [] });
    expect(changed.disk?.trouble, "answers to changes have no trouble").to.equal(undefined);
    await operator.setDiskLimits({ diskId: "x", limits: { ...LIMITS, readIops: 7 } });
    seen.refusing = undefined;
    expect(await confirmed()).to.include({ sessionNumber });
    expect(seen.orders.at(-1)).to.deep.include({ limits: { ...LIMITS, readIops: 7 }, sessionNumber, revision: 2 });
    expect((await fleet.registry.disk("x")).trouble).to.equal(undefined);
    const hanging = operator.setDiskLimits({ diskId: "x", limits: { readBytesPerSecond: 50 } });
    await rejection(hanging, InvalidArgumentError, "limits.read_bytes_per_second is 50");
    await operator.setDiskLimits({ diskId: "x" });
    await confirmed();
    expect(seen.orders.at(-1)).to.deep.include({ limits: undefined, sessionNumber, revision: 3 });
  });

  it("a disk in use is not taken from its host, whose devices are not asked, until it is released or fenced", async () => {
    const { operator } = fleet.registry;
    const agent = await fleet.readyAgent("h1", ["d1"]);
    await fleet.createDisk("x");
    await operator.publishDisk({ diskId: "x", hostId: "h1" });
    const session = agent.sessions.get("d1");
    let isInUse = true;
    const drains: boolean[] = [];
    agent.beforeUnexport = async ({ drain }) => {
      drains.push(drain);
      if (isInUse && drain) throw new InvalidStateError("it is open in process 7", { reason: "DISK_IN_USE" });
    };
    const unpublish = () => operator.unpublishDisk({ diskId: "x" }, { deadlineMs: 1_000 });
    await rejection(unpublish(), UnavailableError, "process 7");
    expect((await publication())?.state).to.equal(PublicationState.UNPUBLISHING);
    expect((await fleet.registry.disk("x")).trouble?.sentence).to.contain("process 7");
    expect(agent.sessions.get("d1")).to.deep.equal(session);
    expect(agent.exports.has("x")).to.equal(true);
    isInUse = false;
    await operator.unpublishDisk({ diskId: "x" });
    expect(new Set(drains)).to.deep.equal(new Set([true]));
    await operator.publishDisk({ diskId: "x", hostId: "h1" });
    isInUse = true;
    await rejection(unpublish(), UnavailableError, "process 7");
    await operator.fenceHost({ hostId: "h1", reason: "no power" });
    await eventually(async () => expect(await publication()).to.equal(undefined));
    expect(agent.exports.has("x")).to.equal(false);
  });

  it("a disk that its host says to be unusable is in trouble until the host no longer says so", async () => {
    const { operator } = fleet.registry;
    const agent = await fleet.readyAgent("h1", ["d1"]);
    await fleet.createDisk("x");
    await operator.publishDisk({ diskId: "x", hostId: "h1" });
    const sessionNumber = (await publication())?.sessionNumber ?? 0;
    agent.stopHeartbeats();
    const say = (...diskProblems: { sessionNumber: number; message: string }[]) =>
      agent.heartbeat("h1", agent.bootId, {
        diskProblems: diskProblems.map((each) => ({ diskId: "x", ageMs: 5_000, ...each })),
      });
    const problem = { sessionNumber, message: "nbdfuse\u001b has ended" };
    await say({ ...problem, sessionNumber: sessionNumber - 1 });
    expect((await fleet.registry.disk("x")).trouble).to.equal(undefined);
    await say(problem);
    const { trouble } = await fleet.registry.disk("x");
    expect(trouble).to.include({ code: "UNUSABLE_ON_HOST" });
    expect(trouble?.sentence)
      .to.match(/^disk x cannot be used on host h1: nbdfuse.* has ended$/)
      .and.not.include("\u001b");
    await say(problem);
    await say();
    expect((await fleet.registry.disk("x")).trouble).to.equal(undefined);
    const { events } = await operator.listFleetEvents({});
    const actions = events.map(({ action }) => action).filter((action) => action.startsWith("DiskU"));
    expect(actions).to.deep.equal(["DiskUsable", "DiskUnusable"]);
  });

  it("a disk with an old open request is in trouble, which says why, until the request is answered", async () => {
    const { operator } = fleet.registry;
    const agent = await fleet.readyAgent("h1", ["d1"]);
    await fleet.createDisk("x", { limits: LIMITS });
    await operator.publishDisk({ diskId: "x", hostId: "h1" });
    agent.stopHeartbeats();
    const io = { reads: 1, readBytes: 4096, writes: 2, writtenBytes: 8192 };
    const open = (seconds: number, queue: Partial<DiskIo>) =>
      agent.heartbeat("h1", agent.bootId, {
        io,
        disks: [
          {
            diskId: "x",
            io: DiskIo.fromPartial({ openRequests: 3, oldestRequestAge: { seconds, nanos: 0 }, ...queue }),
          },
        ],
      });
    await open(4, { throttledRequests: 2 });
    expect((await fleet.registry.disk("x")).trouble).to.equal(undefined);
    await open(5, { throttledRequests: 2 });
    const { trouble, io: shown } = await fleet.registry.disk("x");
    expect(trouble?.code).to.equal("IO_STANDS");
    expect(trouble?.sentence).to.equal(
      "disk x is throttled on host h1 to 100 reads/s, 50 writes/s, 1.9 MiB/s written: 2 requests wait for the limits",
    );
    expect(Date.now() - (trouble?.startTime?.getTime() ?? 0)).to.be.within(5_000, 60_000);
    expect(shown).to.include({ openRequests: 3, throttledRequests: 2 });
    await open(6, { waitsForDeviceId: "d1" });
    expect((await fleet.registry.disk("x")).trouble?.sentence).to.match(/3 requests .*: device d1 does not answer$/);
    await open(0, { engine: "node", engineReason: "not kernel: host h2 has no NVMe/TCP" });
    expect((await fleet.registry.disk("x")).trouble).to.equal(undefined);
    const { summary } = await fleet.registry
      .operatorOf(AdminServiceDefinition)
      .explain({ subject: { kind: SubjectKind.DISK, name: "x" } });
    expect(summary).to.match(/, carried by engine node \(not kernel: host h2 has no NVMe\/TCP\)$/);
  });

  it("a watcher of disks hears that the I/O of one stands, and that it goes on", async () => {
    const { operator } = fleet.registry;
    const agent = await fleet.readyAgent("h1", ["d1"]);
    await fleet.createDisk("x");
    await operator.publishDisk({ diskId: "x", hostId: "h1" });
    agent.stopHeartbeats();
    const io = { reads: 0, readBytes: 0, writes: 0, writtenBytes: 0 };
    const open = (openRequests: number, seconds: number) =>
      agent.heartbeat("h1", agent.bootId, {
        io,
        disks: [{ diskId: "x", io: DiskIo.fromPartial({ openRequests, oldestRequestAge: { seconds, nanos: 0 } }) }],
      });
    let resumeToken = "";
    const codes = async () => {
      const found = [];
      for await (const answer of operator.watchDisks({ resumeToken, untilNow: true })) {
        ({ resumeToken } = answer);
        if (answer.update?.$case === "disk") found.push(answer.update.value.trouble?.code);
      }
      return found;
    };
    await open(0, 0);
    expect(await codes()).to.deep.equal([undefined]);
    await open(1, 30);
    expect(await codes()).to.deep.equal(["IO_STANDS"]);
    await open(1, 32);
    expect(await codes()).to.deep.equal([]);
    await open(0, 0);
    expect(await codes()).to.deep.equal([undefined]);
  });

  it("a change continues after a kill of the registry", async () => {
    const { operator } = fleet.registry;
    const seen = ordersTo(await fleet.readyAgent("h1", ["d1"]));
    await fleet.createDisk("x");
    await operator.publishDisk({ diskId: "x", hostId: "h1" });
    seen.refusing = new UnavailableError("busy now");
    await operator.setDiskLimits({ diskId: "x", limits: LIMITS });
    await fleet.registry.process.kill();
    seen.refusing = undefined;
    await fleet.registry.process.start();
    await confirmed();
    expect(seen.orders.at(-1)).to.deep.include({ limits: LIMITS, revision: 1 });
  });

  it("a larger size reaches the host in the same session, and the added devices in a session of their own", async () => {
    const { operator } = fleet.registry;
    const one = await fleet.readyAgent("h1", ["d1"]);
    const two = await fleet.readyAgent("h2", ["d2"]);
    const seen = ordersTo(one);
    await fleet.createDisk("x");
    const { disk: before } = await operator.publishDisk({ diskId: "x", hostId: "h1" });
    const [, other] = devicesWithBytes(before)[0] === "d1" ? [one, two] : [two, one];
    const { sessionNumber } = before?.publication ?? {};
    seen.refusing = new UnavailableError("busy now");
    const resizing = operator.resizeDisk({ diskId: "x", sizeBytes: 100 * MIB_BYTES });
    await eventually(async () => expect((await publication())?.changePending).to.equal(true));
    seen.refusing = undefined;
    const { disk } = await resizing;
    expect(disk).to.include({ sizeBytes: 128 * MIB_BYTES });
    expect(disk?.publication).to.include({ sessionNumber, changePending: false, state: PublicationState.PUBLISHED });
    const [first, second] = seen.orders.at(-1)?.extents ?? [];
    expect([first?.deviceId, second?.deviceId]).to.deep.equal(devicesWithBytes(disk));
    expect(first?.sessionNumber).to.equal(0);
    expect(second?.sessionNumber).to.be.above(sessionNumber ?? 0);
    const granted = other.sessions.get(second?.deviceId ?? "");
    expect(granted).to.deep.include({ sessionNumber: second?.sessionNumber, holderHostId: "h1", diskId: "x" });
    expect((await operator.unpublishDisk({ diskId: "x" })).disk?.publication).to.equal(undefined);
    for (const [agent, deviceId] of [
      [one, "d1"],
      [two, "d2"],
    ] as const) {
      expect(agent.sessions.get(deviceId)?.holderHostId).to.equal("");
      expect(agent.sessions.get(deviceId)?.sessionNumber).to.be.above(second?.sessionNumber ?? 0);
    }
  });

  it("a disk is taken from a host that does not answer only once the host is UNAVAILABLE", async () => {
    await fleet.startOwn({ heartbeat: { intervalMs: 200, timeoutMs: 3_000 } });
    const { operator } = fleet.registry;
    await fleet.readyAgent("h1", ["d1"]);
    const holder = await fleet.readyAgent("h2", ["d2"]);
    await fleet.createDisk("x", { hostId: "h1" });
    await operator.publishDisk({ diskId: "x", hostId: "h2" });
    await holder.stop();
    await rejection(operator.unpublishDisk({ diskId: "x" }, { deadlineMs: 1_000 }), UnavailableError, "h2");
    expect((await publication())?.state).to.equal(PublicationState.UNPUBLISHING);
    await operator.unpublishDisk({ diskId: "x" });
    const { hosts } = await operator.listHosts({});
    expect(hosts.find(({ hostId }) => hostId === "h2")?.state).to.equal(HostState.UNAVAILABLE);
  });
});
