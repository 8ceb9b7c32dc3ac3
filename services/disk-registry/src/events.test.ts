import { AdminServiceDefinition } from "@diskmesh/api/common";
import { LabelState } from "@diskmesh/api/internal";
import {
  AttachState,
  type DiskRegistryServiceDefinition,
  type FleetEvent,
  FleetServiceDefinition,
  Health,
  HostState,
  type ListFleetEventsRequest,
  UnknownDiskVerdict,
} from "@diskmesh/api/registry";
import {
  InvalidArgumentError,
  InvalidStateError,
  MIB_BYTES,
  NotFoundError,
  PermissionDeniedError,
} from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { allPages, type CallOptions } from "@diskmesh/rpc";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { SharedRegistry } from "./testing/shared-registry.js";

type Methods = (typeof DiskRegistryServiceDefinition)["methods"] &
  (typeof FleetServiceDefinition)["methods"] &
  (typeof AdminServiceDefinition)["methods"];
/** The mapped type requires an entry for each method that is not a read. */
type Changes = {
  readonly [Name in Exclude<keyof Methods, `${"get" | "list" | "watch" | "explain"}${string}`>]: (
    of: CallOptions,
  ) => Promise<unknown>;
};

describe("the event log", () => {
  const fleet = SharedRegistry.forAllTests();

  const events = (request: Partial<ListFleetEventsRequest> = {}): Promise<FleetEvent[]> =>
    allPages(async (pageToken) => {
      const page = await fleet.registry.operator.listFleetEvents({ ...request, pageToken });
      return { items: page.events, nextPageToken: page.nextPageToken };
    });
  const newest = async (request: Partial<ListFleetEventsRequest> = {}): Promise<FleetEvent | undefined> =>
    (await events(request))[0];
  /** Returns the registry's log lines about the call. */
  const linesOf = (requestId: string): Record<string, unknown>[] =>
    fleet.registry.process.logs
      .split("\n")
      .filter((line) => line.includes('"audit":"call"') && line.includes(`"requestId":"${requestId}"`))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  const actions = async (request: Partial<ListFleetEventsRequest>) =>
    (await events(request)).map(({ action }) => action);

  it("has one event, and the log one line, for each change, with its name, its caller and the changed things", async () => {
    await fleet.startOwn({ pools: { default: { deleteGraceMs: 600_000 } } });
    const { registry } = fleet;
    const { operator } = registry;
    const fleets = registry.operatorOf(FleetServiceDefinition);
    const admin = registry.operatorOf(AdminServiceDefinition);
    const agent = await registry.agent("h1", ["d1", "d2", "d3"]);
    await agent.register();
    agent.startHeartbeats(50);
    await fleet.readyAgent("h2", ["e1"]);
    const d3 = { hostId: "h1", deviceId: "d3" };
    const changes: Changes = {
      createBackup: async (of) => {
        const noted = () => events(of.requestId === undefined ? {} : { requestId: of.requestId });
        // The event is durable before the backup sends any data.
        for await (const _ of admin.createBackup({}, of)) expect(await noted()).to.have.length(1);
      },
      addHost: (of) => operator.addHost({ hostId: "h1" }, of),
      removeDevice: (of) => operator.removeDevice({ ...d3, keepData: true }, of),
      addDevice: (of) => operator.addDevice(d3, of),
      confirmDevice: async (of) => {
        for (const attached of [true, false]) {
          const fileIdentity = `boot-${attached} block 8:16:1`;
          agent.report = (device) =>
            device.deviceId === "d3" ? { ...device, serialNumber: "", fileIdentity, attached } : device;
          await agent.register();
        }
        expect((await operator.confirmDevice(d3, of)).result?.code).to.equal("ACTION_CODE_S_OK");
      },
      adoptDevice: async (of) => {
        const label = {
          fleetId: agent.obeys.tabletId,
          deviceId: "d3",
          labelId: "1".repeat(32),
          sizeBytes: 0,
          sliceBytes: 0,
          offsetBytes: 0,
        };
        agent.report = (device) =>
          device.deviceId === "d3"
            ? { ...device, serialNumber: "a copy", labelState: LabelState.VALID, label, attached: false }
            : device;
        await agent.register();
        expect((await operator.adoptDevice(d3, of)).result?.code).to.equal("ACTION_CODE_S_OK");
      },
      purgeDevice: (of) => operator.purgeDevice(d3, of),
      createDisk: async (of) => {
        await fleet.clean("d1", "d2");
        await operator.createDisk({ diskId: "a", sizeBytes: MIB_BYTES, az: "z1", hostId: "h1" }, of);
      },
      setDiskLabels: (of) => operator.setDiskLabels({ diskId: "a", labels: [{ name: "n", value: "v" }] }, of),
      setDiskLimits: (of) => operator.setDiskLimits({ diskId: "a", limits: { readIops: 5 } }, of),
      resizeDisk: (of) => operator.resizeDisk({ diskId: "a", sizeBytes: 100 * MIB_BYTES }, of),
      publishDisk: (of) => operator.publishDisk({ diskId: "a", hostId: "h2" }, of),
      fenceHost: (of) => operator.fenceHost({ hostId: "h2", reason: "it smells" }, of),
      unpublishDisk: async (of) => {
        await eventually(async () => expect((await registry.disk("a")).publication).to.equal(undefined));
        await eventually(() => operator.publishDisk({ diskId: "a", hostId: "h1" }));
        await operator.unpublishDisk({ diskId: "a" }, of);
      },
      migrateDisk: (of) => operator.migrateDisk({ diskId: "a", hostId: "h2" }, of),
      replaceDevice: (of) => operator.replaceDevice({ diskId: "a", deviceId: "d1" }, of),
      cancelMove: (of) => operator.cancelMove({ diskId: "a" }, of),
      undeleteDisk: async (of) => {
        await operator.deleteDisk({ diskId: "a" });
        await operator.undeleteDisk({ diskId: "a" }, of);
      },
      deleteDisk: (of) => operator.deleteDisk({ diskId: "a", skipGrace: true }, of),
      assignHost: (of) => operator.assignHost({ vmCid: "vm-1", az: "z1" }, of),
      unassignHost: (of) => operator.unassignHost({ vmCid: "vm-1" }, of),
      setHostState: (of) => operator.setHostState({ hostIds: ["h2"], state: HostState.DEAD, reason: "burnt" }, of),
      setDeviceState: (of) =>
        operator.setDeviceState({ deviceIds: ["e1"], health: Health.WARNING, reason: "it rattles" }, of),
      removeHost: (of) => operator.removeHost({ hostId: "h2" }, of),
      purgeHost: (of) => operator.purgeHost({ hostId: "h2", force: true }, of),
      decideUnknownDisks: async (of) => {
        agent.sessions.set("d1", { sessionNumber: 1_000, holderHostId: "h1", diskId: "ghost" });
        await agent.register();
        await agent.register();
        await fleets.decideUnknownDisks({ verdict: UnknownDiskVerdict.REGISTRY, deviceIds: ["d1"] }, of);
      },
      raiseNumbers: (of) => fleets.raiseNumbers({ hostId: "h1", sessionNumber: 2 ** 40 }, of),
      adoptFleet: (of) =>
        fleets.adoptFleet({ tabletId: "other", incarnation: "gone", sessionNumber: 2 ** 40 + 2 ** 30 }, of),
    };
    for (const [name, change] of Object.entries(changes)) {
      const action = `${name.charAt(0).toUpperCase()}${name.slice(1)}`;
      const requestId = `audit-${name}`;
      await change({ requestId });
      const [event, ...more] = await events({ requestId });
      expect(event, action).to.deep.include({ action, user: "operator", routine: false, requestId });
      expect(more, `further events of ${action}`).to.deep.equal([]);
      const [line, ...others] = await eventually(() => {
        expect(linesOf(requestId), action).not.to.deep.equal([]);
        return linesOf(requestId);
      });
      expect(line?.method).to.match(new RegExp(`/${action}$`));
      expect(line).to.include({ status: "OK", caller: "operator" });
      expect(line?.durationMs).to.be.a("number");
      expect(others, `further lines of ${action}`).to.deep.equal([]);
    }
    expect(await newest({ action: "CreateDisk" })).to.deep.include({
      diskIds: ["a"],
      hostIds: ["h1"],
      answer: "OK",
    });
    expect((await newest({ action: "PublishDisk" }))?.diskIds).to.deep.equal(["a"]);
    expect((await newest({ action: "FenceHost" }))?.message).to.equal("it smells");
    expect(await newest({ action: "SetHostState" })).to.deep.include({ hostIds: ["h2"], message: "dead: burnt" });
    expect(await newest({ action: "SetDeviceState" })).to.deep.include({
      deviceIds: ["e1"],
      message: "WARNING: it rattles",
    });
    expect(await newest({ action: "AddDevice" })).to.deep.include({
      deviceIds: ["d3"],
      hostIds: ["h1"],
      answer: "S_OK",
    });
    expect(await newest({ action: "RaiseNumbers" }))
      .to.have.property("message")
      .that.contains("h1");
  });

  it("has the registry's own changes, found by host, device, disk and time", async () => {
    await fleet.startOwn({ heartbeat: { timeoutMs: 1_000, intervalMs: 100, missedUntilSuspected: 5 } });
    const beganAt = new Date();
    const one = await fleet.readyAgent("h1", ["d1"]);
    await fleet.readyAgent("h2", ["e1"]);
    const { operator } = fleet.registry;
    await eventually(() => fleet.createDisk("a", { hostId: "h2" }));
    await eventually(() => operator.publishDisk({ diskId: "a", hostId: "h1", onHostSilence: "ON_HOST_SILENCE_FENCE" }));
    one.stopHeartbeats();
    await eventually(async () => expect(await actions({ hostId: "h1" })).to.include("HostUnavailable"));
    await eventually(async () => expect(await actions({ diskId: "a" })).to.include("DiskFenced"));
    one.report = (device) => ({ ...device, health: "HEALTH_ERROR", healthMessage: "EIO" });
    await one.register();
    await eventually(async () => expect(await actions({ deviceId: "d1" })).to.include("DeviceError"));
    const own = await events({ user: "disk-registry" });
    const told = own.map(({ action }) => action);
    expect(told).to.include.members(["HostRegistered", "HostBack", "DeviceErased", "LeaderStarted", "DiskFenced"]);
    expect(own.find(({ action }) => action === "DeviceError")).to.deep.include({ hostIds: ["h1"], message: "EIO" });
    expect(own.filter(({ routine }) => routine).map(({ action }) => action)).to.include("DeviceErased");
    expect(await actions({ deviceId: "d1" })).not.to.include("CreateDisk");
    expect(await events({ beforeTime: beganAt, hostId: "h1" })).to.deep.equal([]);
    expect(await actions({ afterTime: beganAt })).not.to.include("LeaderStarted");
    const ids = (await events()).map(({ eventId }) => eventId);
    expect(ids).to.deep.equal([...ids].sort((a, b) => b - a));
  });

  it("has refused calls of operators, but no dry runs and no calls that changed nothing; only operators read it", async () => {
    await fleet.readyAgent("h1", ["d1"]);
    const { operator } = fleet.registry;
    const before = (await newest())?.eventId ?? 0;
    await operator.addHost({ hostId: "h1" });
    await operator.removeHost({ hostId: "h1", dryRun: true });
    await rejection(operator.removeHost({ hostId: "nobody", dryRun: true }), NotFoundError);
    expect((await newest())?.eventId).to.equal(before);
    await rejection(operator.removeHost({ hostId: "nobody" }, { requestId: "no-such-host" }), NotFoundError);
    expect(await newest()).to.deep.include({ action: "RemoveHost", answer: "NOT_FOUND", hostIds: ["nobody"] });
    expect((await events({ thing: "nobody", answer: "NOT_FOUND" })).map(({ requestId }) => requestId)).to.deep.equal([
      "no-such-host",
    ]);
    expect(await events({ thing: "nobody", answer: "OK" })).to.deep.equal([]);
    const elsewhere = { hostId: "h1", deviceId: "e1" };
    await fleet.readyAgent("h2", ["e1"]);
    await rejection(operator.removeDevice(elsewhere), InvalidArgumentError, "belongs to host h2");
    expect(await newest()).to.deep.include({ answer: "INVALID_ARGUMENT", hostIds: ["h1"], deviceIds: ["e1"] });
    await rejection(operator.removeDevice({ hostId: "h1" }), InvalidArgumentError, "both empty");
    expect(await newest(), "what is malformed is not recorded").to.deep.include({ deviceIds: ["e1"] });
    const refused = { requestId: "refused" };
    await rejection(operator.publishDisk({ diskId: "none", hostId: "h1" }, refused), NotFoundError);
    await eventually(() => expect(linesOf("refused")[0]).to.include({ status: "NOT_FOUND", reason: "NOT_FOUND" }));
    expect(linesOf("refused")).to.have.length(1);
    expect(await newest()).to.deep.include({ answer: "NOT_FOUND", diskIds: ["none"], hostIds: ["h1"], routine: true });
    await fleet.createDisk("a");
    await operator.publishDisk({ diskId: "a", hostId: "h1" });
    await rejection(operator.deleteDisk({ diskId: "a" }), InvalidStateError);
    expect(await newest()).to.deep.include({ action: "DeleteDisk", user: "operator" });
    const dispatcher = fleet.registry.client("cpi-dispatcher");
    await rejection(dispatcher.deleteDisk({ diskId: "a" }), InvalidStateError);
    expect((await newest())?.user).to.equal("operator");
    await rejection(dispatcher.listFleetEvents({}), PermissionDeniedError);
    await dispatcher.unpublishDisk({ diskId: "a" });
    expect(await newest({ action: "UnpublishDisk" })).to.deep.include({ user: "cpi-dispatcher", routine: true });
  });

  it("are beside the kept changes of each object, which name caller, method, worker and changed fields, in pages", async () => {
    const { operator } = fleet.registry;
    await fleet.readyAgent("h1", ["d1"]);
    await fleet.remove("h1");
    await fleet.inState("d1", AttachState.DETACHED);
    const pages = await allPages(async (pageToken) => {
      const page = await operator.listChanges({ deviceId: "d1", pageSize: 2, pageToken });
      expect(page).to.deep.include({ areKept: true, isComplete: true });
      return { items: page.changes, nextPageToken: page.nextPageToken };
    });
    const told = pages.map(({ cause, details }) => `${cause}; ${details.join("; ")}`);
    expect(told[0]).to.match(/^disk-registry: attach and detach orders; .*attach state CLOSING -> DETACHED/);
    expect(told[1]).to.match(
      /^operator: RemoveHost, request \S+; attach state ATTACHED -> CLOSING; .*removal requested no -> yes/,
    );
    expect(told.at(-1)).to.match(/^disk-registry: a registration; created; .*attach state UNKNOWN/);
    const times = pages.map(({ commitTime }) => commitTime?.getTime() ?? 0);
    expect(times)
      .to.deep.equal(times.toSorted((a, b) => b - a))
      .and.not.to.include(0);
    await rejection(operator.listChanges({ deviceId: "d9" }), NotFoundError, "no device has the id d9");
    for (const request of [{}, { hostId: "h1", deviceId: "d1" }])
      await rejection(operator.listChanges(request), InvalidArgumentError, "exactly one");
    await rejection(fleet.registry.client("cpi-dispatcher").listChanges({ hostId: "h1" }), PermissionDeniedError);
  });

  it("drops the oldest events beyond the limits, routine ones separately, and keeps the others over a restart", async () => {
    await fleet.startOwn({ events: { maxCount: 5 } });
    await fleet.readyAgent("h1", ["d1"]);
    await fleet.createDisk("a");
    const { operator } = fleet.registry;
    const dispatcher = fleet.registry.client("cpi-dispatcher");
    const label = (client: typeof operator, value: string) =>
      client.setDiskLabels({ diskId: "a", labels: [{ name: "n", value }] });
    for (let count = 0; count < 10; count++) await label(operator, `${count}`);
    for (let count = 0; count < 10; count++) await label(dispatcher, `${count}`);
    const kept = await events();
    expect(kept.map(({ user }) => user)).to.deep.equal([
      ...Array.from({ length: 5 }, () => "cpi-dispatcher"),
      ...Array.from({ length: 5 }, () => "operator"),
    ]);
    await fleet.registry.process.restart();
    const after = await events({ action: "SetDiskLabels" });
    expect(after.slice(0, 5)).to.deep.equal(kept.slice(0, 5));
    expect((await newest({ action: "LeaderStarted" }))?.eventId).to.be.above(kept[0]?.eventId ?? 0);
  });
});
