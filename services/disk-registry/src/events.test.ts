import {
  type DiskRegistryServiceDefinition,
  type Event,
  FleetServiceDefinition,
  Health,
  HostState,
  type ListEventsRequest,
  UnknownDiskVerdict,
} from "@diskmesh/api/registry";
import { InvalidStateError, NotFoundError, PermissionDeniedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { allPages, createClient } from "@diskmesh/rpc";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { SharedRegistry } from "./testing/shared-registry.js";

type Methods = (typeof DiskRegistryServiceDefinition)["methods"] & (typeof FleetServiceDefinition)["methods"];
/** The compiler asks for a line of each method that is no read. */
type Changes = {
  readonly [Name in Exclude<keyof Methods, `${"get" | "list" | "watch"}${string}`>]: () => Promise<unknown>;
};

describe("the event log", () => {
  const fleet = SharedRegistry.forAllTests();

  const events = (request: Partial<ListEventsRequest> = {}): Promise<Event[]> =>
    allPages(async (pageToken) => {
      const page = await fleet.registry.operator.listEvents({ ...request, pageToken });
      return { items: page.events, nextPageToken: page.nextPageToken };
    });
  const newest = async (request: Partial<ListEventsRequest> = {}): Promise<Event | undefined> =>
    (await events(request))[0];
  const actions = async (request: Partial<ListEventsRequest>) => (await events(request)).map(({ action }) => action);

  it("each method that changes something -> an event of its name, of who called, with what changed", async () => {
    const { registry } = fleet;
    const { operator } = registry;
    const fleets = createClient(FleetServiceDefinition, {
      address: registry.address,
      tls: registry.certificates.files("operator"),
      serverRole: "disk-registry",
      defaultDeadlineMs: 60_000,
    });
    const agent = await registry.agent("h1", ["d1", "d2", "d3"]);
    await agent.register();
    agent.startHeartbeats(50);
    await fleet.readyAgent("h2", ["e1"]);
    const of = { hostId: "h1", deviceId: "d3" };
    const changes: Changes = {
      addHost: () => operator.addHost({ hostId: "h1" }),
      removeDevice: () => operator.removeDevice({ ...of, keepData: true }),
      addDevice: () => operator.addDevice(of),
      purgeDevice: () => operator.purgeDevice(of),
      createDisk: async () => {
        await fleet.clean("d1", "d2");
        await fleet.createDisk("a", { hostId: "h1" });
      },
      setDiskLabels: () => operator.setDiskLabels({ diskId: "a", labels: [{ name: "n", value: "v" }] }),
      resizeDisk: () => operator.resizeDisk({ diskId: "a", sizeBytes: 100 * 1024 * 1024 }),
      publishDisk: () => operator.publishDisk({ diskId: "a", hostId: "h2" }),
      fenceHost: () => operator.fenceHost({ hostId: "h2", reason: "it smells" }),
      unpublishDisk: async () => {
        await eventually(async () => expect((await registry.disk("a")).publication).to.equal(undefined));
        await eventually(() => operator.publishDisk({ diskId: "a", hostId: "h1" }));
        await operator.unpublishDisk({ diskId: "a" });
      },
      deleteDisk: () => operator.deleteDisk({ diskId: "a" }),
      assignHost: () => operator.assignHost({ vmCid: "vm-1", az: "z1" }),
      unassignHost: () => operator.unassignHost({ vmCid: "vm-1" }),
      setHostState: () => operator.setHostState({ hostIds: ["h2"], state: HostState.DEAD, reason: "burnt" }),
      setDeviceState: () =>
        operator.setDeviceState({ deviceIds: ["e1"], health: Health.WARNING, reason: "it rattles" }),
      removeHost: () => operator.removeHost({ hostId: "h2" }),
      purgeHost: () => operator.purgeHost({ hostId: "h2", force: true }),
      decideUnknownDisks: async () => {
        agent.sessions.set("d1", { sessionNumber: 1_000, holderHostId: "h1", diskId: "ghost" });
        await agent.register();
        await agent.register();
        await fleets.decideUnknownDisks({ verdict: UnknownDiskVerdict.REGISTRY, deviceIds: ["d1"] });
      },
      raiseNumbers: () => fleets.raiseNumbers({ hostId: "h1", sessionNumber: 2 ** 40 }),
      adoptFleet: () => fleets.adoptFleet({ tabletId: "other", incarnation: "gone" }),
    };
    try {
      for (const [name, change] of Object.entries(changes)) {
        const action = `${name.charAt(0).toUpperCase()}${name.slice(1)}`;
        const before = (await newest())?.eventId ?? 0;
        await change();
        const told = (await events({ action })).filter(({ eventId }) => eventId > before);
        expect(told.length, action).to.be.at.least(1);
        for (const event of told) expect(event, action).to.deep.include({ user: "operator", routine: false });
      }
    } finally {
      fleets.close();
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

  it("what the registry does by itself -> told as its own, to be found by host, device, disk and time", async () => {
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

  it("refused to an operator -> told; dry runs and answers that changed nothing -> not; only operators read it", async () => {
    await fleet.readyAgent("h1", ["d1"]);
    const { operator } = fleet.registry;
    const before = (await newest())?.eventId ?? 0;
    await operator.addHost({ hostId: "h1" });
    await operator.removeHost({ hostId: "h1", dryRun: true });
    await operator.removeHost({ hostId: "nobody", dryRun: true });
    expect((await newest())?.eventId).to.equal(before);
    await operator.removeHost({ hostId: "nobody" });
    expect(await newest()).to.deep.include({ action: "RemoveHost", answer: "E_NOT_FOUND", hostIds: ["nobody"] });
    await rejection(operator.publishDisk({ diskId: "none", hostId: "h1" }), NotFoundError);
    expect(await newest()).to.deep.include({ answer: "NOT_FOUND", diskIds: ["none"], hostIds: ["h1"], routine: true });
    await fleet.createDisk("a");
    await operator.publishDisk({ diskId: "a", hostId: "h1" });
    await rejection(operator.deleteDisk({ diskId: "a" }), InvalidStateError);
    expect(await newest()).to.deep.include({ action: "DeleteDisk", user: "operator" });
    const dispatcher = fleet.registry.client("cpi-dispatcher");
    await rejection(dispatcher.deleteDisk({ diskId: "a" }), InvalidStateError);
    expect((await newest())?.user).to.equal("operator");
    await rejection(dispatcher.listEvents({}), PermissionDeniedError);
    await dispatcher.unpublishDisk({ diskId: "a" });
    expect(await newest({ action: "UnpublishDisk" })).to.deep.include({ user: "cpi-dispatcher", routine: true });
  });

  it("beyond the limits -> the oldest go, of routine ones and others apart; the rest is there after a restart", async () => {
    await fleet.startOwn({ events: { maxCount: 5, maxRoutineCount: 3 } });
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
      ...Array.from({ length: 3 }, () => "cpi-dispatcher"),
      ...Array.from({ length: 5 }, () => "operator"),
    ]);
    await fleet.registry.process.restart();
    const after = await events({ action: "SetDiskLabels" });
    expect(after.slice(0, 3)).to.deep.equal(kept.slice(0, 3));
    expect((await newest({ action: "LeaderStarted" }))?.eventId).to.be.above(kept[0]?.eventId ?? 0);
  });
});
