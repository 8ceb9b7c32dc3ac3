import { cpSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  AttachState,
  devicesWithBytes,
  FleetServiceDefinition,
  PublicationState,
  UnknownDiskVerdict,
} from "@diskmesh/api/registry";
import {
  AbortedError,
  InvalidArgumentError,
  InvalidStateError,
  NotFoundError,
  ResourceExhaustedError,
} from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { type Client, createClient } from "@diskmesh/rpc";
import { ensureTablet } from "@diskmesh/tablet/testing";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { SharedRegistry } from "../testing/shared-registry.js";
import type { TestAgent } from "../testing/test-agent.js";

const AHEAD = 2 ** 20;
/** Deadline for a call that is expected not to finish. */
const SHORT = { deadlineMs: 1_000 };

describe("disk-registry and the numbers that agents remember", () => {
  const fleet = SharedRegistry.forAllTests();
  let operator: Client<typeof FleetServiceDefinition>;

  beforeEach(async () => {
    // Each test starts its own registry, because a registry keeps the numbers and incarnations that agents reported.
    await fleet.startOwn();
    connect();
  });
  afterEach(() => operator.close());

  it("a heartbeat reveals a store that was copied back, and no device with a forgotten disk is given away", async () => {
    const agent = await fleet.readyAgent("h1", ["d1", "d2"]);
    const other = await fleet.readyAgent("h2", ["e1"]);
    await copyStore("before");
    await fleet.createDisk("x", { hostId: "h1", az: "" });
    const { disk } = await fleet.registry.operator.publishDisk({ diskId: "x", hostId: "h1" });
    const held = devicesWithBytes(disk)[0] ?? "";
    const session = agent.sessions.get(held)?.sessionNumber ?? 0;
    await copyStore("back");

    await eventually(async () => expect((await fleetNow()).tabletGeneration).to.be.above(AHEAD));
    await registeredAnew(agent);
    await registeredAnew(other);
    const device = await fleet.registry.device(held);
    expect(device).to.deep.include({
      heldByUnknownDisk: true,
      unknownSession: { sessionNumber: session, diskId: "x" },
      diskId: "",
    });
    const free = await fleet.createDisk("y", { hostId: "h1", az: "" });
    expect(devicesWithBytes(free.disk), "the device that nothing is known against").to.deep.equal(
      held === "d1" ? ["d2"] : ["d1"],
    );
    await rejection(fleet.createDisk("z", { hostId: "h1", az: "" }), ResourceExhaustedError);
    expect(agent.sessions.get(held), "not erased").to.deep.include({ sessionNumber: session, diskId: "x" });
    expect(agent.exports.get("x"), "still served").to.equal(session);
    // New numbers are higher than all numbers that were issued after the copy was made.
    const published = await fleet.registry.operator.publishDisk({ diskId: "y", hostId: "h1" });
    expect(published.disk?.publication?.sessionNumber).to.be.above(session + 1_000);

    const decided = await operator.decideUnknownDisks(verdict(UnknownDiskVerdict.REGISTRY, { hostId: "h1" }));
    expect(decided).to.deep.equal({ deviceIds: [held], diskIds: [] });
    await fleet.clean(held);
    expect((await fleet.registry.device(held)).heldByUnknownDisk).to.equal(false);
    await eventually(() => expect(agent.exports.has("x"), "served no more").to.equal(false));
  });

  it("an order right after the start of a copied store is not sent before its agent was asked for its numbers", async function () {
    leaveToVerify(this);
    const agent = await fleet.readyAgent("h1", ["d1"]);
    await copyStore("before");
    await fleet.createDisk("x");
    await fleet.registry.operator.publishDisk({ diskId: "x", hostId: "h1" });
    agent.stopHeartbeats();
    const session = agent.sessions.get("d1");
    await copyStore("back");
    await fleet.createDisk("y");
    // No heartbeat has reported the agent's numbers to the copy yet.
    const publishing = fleet.registry.operator.publishDisk({ diskId: "y", hostId: "h1" }, SHORT).catch(() => {});
    await eventually(async () => expect((await fleetNow()).tabletGeneration).to.be.above(AHEAD));
    agent.startHeartbeats(50);
    await registeredAnew(agent);
    expect(agent.sessions.get("d1"), "no session of the copy's reached it").to.deep.equal(session);
    const disk = await fleet.registry.disk("y");
    expect(disk.health).to.equal("HEALTH_ERROR");
    expect(disk.healthMessage).to.contain("held by an unknown disk");
    await publishing;

    const decided = await operator.decideUnknownDisks(verdict(UnknownDiskVerdict.AGENT, { deviceIds: ["d1"] }));
    expect(decided).to.deep.equal({ deviceIds: ["d1"], diskIds: ["y"] });
    expect((await fleet.registry.disk("y")).healthMessage).to.contain("d1 was purged");
    expect(await fleet.registry.device("d1")).to.deep.include({ diskId: "", heldByUnknownDisk: true });
  });

  it("a copied store that gave out the same numbers again still learns what a host remembers", async function () {
    leaveToVerify(this);
    const agent = await fleet.readyAgent("h1", ["d1"]);
    const other = await fleet.readyAgent("h2", ["e1"]);
    await copyStore("before");
    await fleet.createDisk("x", { hostId: "h1", az: "" });
    await fleet.registry.operator.publishDisk({ diskId: "x", hostId: "h1" });
    const session = agent.sessions.get("d1");
    agent.stopHeartbeats();
    await copyStore("back");
    // h2 has no session of the publication, so it accepts the copy, and the copy gives session numbers above those that
    // h1 remembers.
    await fleet.createDisk("y", { hostId: "h2", az: "" });
    for (let round = 0; round < 3; round++) {
      await fleet.registry.operator.publishDisk({ diskId: "y", hostId: "h2" });
      await fleet.registry.operator.unpublishDisk({ diskId: "y" });
    }
    expect(other.sessions.get("e1")?.sessionNumber).to.be.above(session?.sessionNumber ?? 0);
    await fleet.registry.process.stop();
    await fleet.registry.process.start();
    agent.startHeartbeats(50);
    await eventually(async () => expect((await fleetNow()).tabletGeneration).to.be.above(AHEAD));
    await registeredAnew(agent);
    expect(await fleet.registry.device("d1")).to.deep.include({ heldByUnknownDisk: true });
    expect(agent.sessions.get("d1")).to.deep.equal(session);
  });

  it("a lying agent has only its own host refused, and raises no counter, until an operator believes it", async () => {
    const agent = await fleet.readyAgent("h1", ["d1"]);
    const honest = await fleet.readyAgent("h2", ["e1"]);
    const before = await fleetNow();
    // Heartbeats would report the agent's real numbers instead of those that this test sends.
    agent.stopHeartbeats();
    const lie = { highestSessionNumber: 2 ** 40 };
    const refused = await rejection(agent.register(lie), InvalidStateError);
    expect(refused.message)
      .to.contain(`session number ${2 ** 40}, but the registry has`)
      .and.to.contain("RaiseNumbers");
    await rejection(agent.register({ highestTabletGeneration: 2 ** 40 }), InvalidStateError);
    await honest.register();
    const after = await fleetNow();
    expect(after).to.deep.include({ tabletGeneration: before.tabletGeneration, sessionNumber: before.sessionNumber });
    expect(after.refused).to.have.length(1);
    expect(after.refused[0]).to.deep.include({ hostId: "h1", tabletGeneration: 2 ** 40 });

    const sessionNumber = 2 ** 40;
    const raised = await operator.raiseNumbers({
      hostId: "h1",
      tabletGeneration: 0,
      deviceGeneration: 0,
      sessionNumber,
    });
    expect(raised.sessionNumber).to.equal(2 ** 40 + AHEAD);
    await agent.register(lie);
    expect((await fleetNow()).refused).to.deep.equal([]);
    await registeredAnew(honest);
  });

  it("an agent that obeys another incarnation stops the registry, also after its restart, until an operator adopts it", async () => {
    const agent = await fleet.readyAgent("h1", ["d1"]);
    const { tabletId } = await fleetNow();
    agent.obeys = { tabletId, incarnation: "restored-elsewhere" };
    const refused = await rejection(agent.heartbeat(), InvalidStateError);
    expect(refused.message).to.contain("another registry leads this fleet");
    await rejection(fleet.createDisk("x"), InvalidStateError);
    await fleet.registry.process.kill();
    await fleet.registry.process.start();
    await rejection(fleet.createDisk("x"), InvalidStateError);
    const heard = await fleetNow();
    expect(heard.standsStill).to.contain(
      "another registry leads this fleet: the agent of host h1 obeys incarnation restored-elsewhere",
    );
    expect(heard.others[0]).to.deep.include({
      tabletId,
      incarnation: "restored-elsewhere",
      hostId: "h1",
      adoptTime: undefined,
    });

    await operator.adoptFleet({ tabletId, incarnation: "restored-elsewhere", sessionNumber: 0 });
    expect((await fleetNow()).standsStill).to.equal("");
    const answer = await eventually(() => agent.register());
    expect(answer.predecessors).to.deep.equal([{ tabletId, incarnation: "restored-elsewhere" }]);
    await fleet.createDisk("x");

    // Simulates an agent that obeys the other registry, although the answer to its registration there was lost.
    agent.obeys = { tabletId, incarnation: "restored-elsewhere" };
    const unheard = await rejection(agent.heartbeat(), AbortedError);
    expect(unheard.message).to.contain("obeys incarnation restored-elsewhere, which this registry has replaced");
  });

  it("a registry that lost everything and adopts the fleet leaves its devices as they are, marked", async () => {
    const agent = await fleet.readyAgent("h1", ["d1", "d2"]);
    const { disk: held } = await fleet.createDisk("x");
    const free = devicesWithBytes(held)[0] === "d1" ? "d2" : "d1";
    await fleet.registry.operator.publishDisk({ diskId: "x", hostId: "h1" });
    const lost = await fleetNow();
    await fleet.registry.process.stop();
    rmSync(storeFolder(), { recursive: true });
    await ensureTablet({ storage: dirname(storeFolder()), name: "registry" });
    await fleet.registry.process.start();
    const refused = await eventually(() => rejection(agent.register(), InvalidStateError));
    expect(refused.message).to.contain(`obeys tablet ${lost.tabletId}`).and.to.contain("AdoptFleet");
    const { tabletId, incarnation } = lost;
    await operator.adoptFleet({ tabletId, incarnation, sessionNumber: lost.sessionNumber });
    const answer = await eventually(() => agent.register());
    expect([answer.allowedDevices, answer.unknownDevices]).to.deep.equal([[], []]);
    expect([...agent.held], "held as before").to.deep.equal(["d1", "d2"]);
    expect(agent.exports.has("x"), "served as before").to.equal(true);
    for (const deviceId of ["d1", "d2"])
      expect(await fleet.registry.device(deviceId)).to.deep.include({
        heldByUnknownDisk: true,
        attachState: AttachState.UNKNOWN,
      });
    expect((await fleetNow()).unknownDiskDevices).to.equal(2);
    // The operator knows that this device is free.
    const dry = await operator.decideUnknownDisks({
      ...verdict(UnknownDiskVerdict.REGISTRY, { deviceIds: [free] }),
      dryRun: true,
    });
    expect(dry.deviceIds).to.deep.equal([free]);
    expect((await fleetNow()).unknownDiskDevices).to.equal(2);
    await operator.decideUnknownDisks(verdict(UnknownDiskVerdict.REGISTRY, { deviceIds: [free] }));
    await fleet.add();
    await fleet.clean(free);
    expect(devicesWithBytes((await fleet.createDisk("y")).disk)).to.deep.equal([free]);
    const { disk } = await fleet.registry.operator.publishDisk({ diskId: "y", hostId: "h1" });
    expect(disk?.publication?.state).to.equal(PublicationState.PUBLISHED);
  });

  it("bad input is refused and changes nothing", async () => {
    const before = await fleetNow();
    const { tabletId, incarnation } = before;
    await rejection(operator.adoptFleet({ tabletId, incarnation, sessionNumber: 0 }), InvalidArgumentError);
    await rejection(operator.adoptFleet({ incarnation, sessionNumber: 0 }), InvalidArgumentError);
    await rejection(operator.adoptFleet({ tabletId: "a b", incarnation, sessionNumber: 0 }), InvalidArgumentError);
    const numbers = { hostId: "h1", tabletGeneration: 0, deviceGeneration: 0, sessionNumber: 0 };
    await rejection(operator.raiseNumbers({ ...numbers, sessionNumber: 2 ** 50 }), InvalidArgumentError);
    await rejection(operator.raiseNumbers({ ...numbers, deviceGeneration: -1 }), InvalidArgumentError);
    await rejection(operator.raiseNumbers({ ...numbers, hostId: "" }), InvalidArgumentError);
    const { REGISTRY, UNSPECIFIED } = UnknownDiskVerdict;
    await rejection(operator.decideUnknownDisks(verdict(UNSPECIFIED, { hostId: "h1" })), InvalidArgumentError);
    await rejection(operator.decideUnknownDisks(verdict(REGISTRY, {})), InvalidArgumentError);
    await rejection(
      operator.decideUnknownDisks(verdict(REGISTRY, { hostId: "h1", deviceIds: ["d1"] })),
      InvalidArgumentError,
    );
    await rejection(operator.decideUnknownDisks(verdict(REGISTRY, { deviceIds: ["none"] })), NotFoundError);
    expect(await fleetNow()).to.deep.equal(before);
  });

  const fleetNow = () => operator.getFleet({});

  function connect(): void {
    operator = createClient(FleetServiceDefinition, {
      address: fleet.registry.address,
      tls: fleet.registry.certificates.files("operator"),
      serverRole: "disk-registry",
      defaultDeadlineMs: 60_000,
    });
  }

  function storeFolder(): string {
    const { tablet } = fleet.registry.config as { tablet: { storage: string } };
    return join(tablet.storage, "registry");
  }

  /** Stops the registry, copies its folder away or back, and starts it. */
  async function copyStore(when: "before" | "back"): Promise<void> {
    const [folder, copy] = [storeFolder(), `${storeFolder()}-copy`];
    await fleet.registry.process.stop();
    if (when === "before") cpSync(folder, copy, { recursive: true });
    else {
      rmSync(folder, { recursive: true });
      cpSync(copy, folder, { recursive: true });
    }
    await fleet.registry.process.start();
  }

  /** Registers again as a real agent does when a heartbeat asks for it. */
  async function registeredAnew(agent: TestAgent): Promise<void> {
    await eventually(async () => {
      await agent.register();
      await agent.heartbeat();
    });
  }

  function verdict(is: UnknownDiskVerdict, of: { hostId?: string; deviceIds?: string[] }) {
    return { verdict: is, ...of };
  }
});
