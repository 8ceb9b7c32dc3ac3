import { setTimeout as delay } from "node:timers/promises";
import { OrderOutcome } from "@diskmesh/api/internal";
import { AttachState } from "@diskmesh/api/registry";
import { AbortedError, InvalidStateError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { SharedRegistry } from "./testing/shared-registry.js";

describe("disk-registry attaches and detaches devices", () => {
  const fleet = SharedRegistry.forAllTests();

  it("registers devices as UNKNOWN, attaches all with one order on AddHost, and detaches them on RemoveHost", async () => {
    const agent = await fleet.registry.agent("h1", ["d1", "d2", "d3"]);
    const answer = await agent.register();
    expect(answer.allowedDevices).to.deep.equal([]);
    expect(answer.unknownDevices.map((device) => device.deviceId)).to.deep.equal(["d1", "d2", "d3"]);
    expect(answer.unknownDevices[0]?.stamp?.tabletId).to.equal(answer.tabletId);
    expect(agent.held.size).to.equal(0);
    await eventually(async () => expect((await fleet.registry.device("d1")).detachConfirmed).to.equal(true));
    agent.received.length = 0;
    const unknownGeneration = answer.unknownDevices.at(-1)?.stamp?.deviceGeneration ?? 0;

    expect(await fleet.add()).to.equal("ACTION_CODE_S_OK");
    const attached = await fleet.inState("d3", AttachState.ATTACHED);
    expect(agent.received).to.deep.equal([
      {
        kind: "attach",
        deviceIds: ["d1", "d2", "d3"],
        generations: [1, 2, 3].map((step) => unknownGeneration + step),
        tabletGeneration: answer.tabletGeneration,
      },
    ]);
    expect(attached.deviceGeneration).to.equal(unknownGeneration + 3);
    expect([...agent.held]).to.deep.equal(["d1", "d2", "d3"]);
    expect(await fleet.add()).to.equal("ACTION_CODE_S_ALREADY");

    const first = await fleet.remove();
    expect(first?.code).to.equal("ACTION_CODE_E_TRY_AGAIN");
    expect(first?.retryAfterMs).to.be.above(0);
    await eventually(async () => expect((await fleet.remove())?.code).to.equal("ACTION_CODE_S_OK"));
    expect(agent.held.size).to.equal(0);
    expect((await fleet.inState("d1", AttachState.DETACHED)).detachConfirmed).to.equal(true);
  });

  it("answers S_PARTLY where only some devices are taken in, and fails where nothing is, in dry runs, too", async () => {
    const { operator } = fleet.registry;
    const agent = await fleet.registry.agent("h1", ["d1", "d2"]);
    agent.report = (device) =>
      device.deviceId === "d2" ? { ...device, serialNumber: "", fileIdentity: "one block 8:16:1" } : device;
    await agent.register();
    const says = /in operation with 1 of its 2 devices; the others are refused: device d2 .* no unique serial number/;
    for (const dryRun of [true, false, false]) {
      const { result } = await operator.addHost({ hostId: "h1", dryRun });
      expect(result).to.include({ code: "ACTION_CODE_S_PARTLY" });
      expect(result?.message).to.match(says);
    }
    const { events } = await operator.listEvents({ action: "AddHost" });
    expect(events.slice(0, 2).map(({ answer, routine, deviceIds }) => ({ answer, routine, deviceIds }))).to.deep.equal([
      { answer: "S_PARTLY", routine: true, deviceIds: [] },
      { answer: "S_PARTLY", routine: false, deviceIds: ["d1"] },
    ]);
    await fleet.inState("d1", AttachState.ATTACHED);
    for (const dryRun of [true, false]) {
      const refused = operator.addDevice({ hostId: "h1", deviceId: "d2", dryRun });
      expect(await rejection(refused, InvalidStateError, "no unique serial number")).to.include({
        reason: "INVALID_STATE",
      });
    }
    await fleet.remove();
    const leaving = operator.addDevice({ hostId: "h1", deviceId: "d1" });
    expect(await rejection(leaving, InvalidStateError)).to.include({ reason: "HOST_BEING_REMOVED" });
  });

  it("retries a failed attach until it succeeds, and shows attempts and error", async () => {
    const agent = await fleet.registry.agent("h1", ["d1", "d2"]);
    await agent.register();
    let failing = true;
    agent.before = async (kind) => (kind === "attach" && failing ? OrderOutcome.IO_ERROR : undefined);
    await fleet.add();
    const seen = await eventually(async () => {
      const device = await fleet.registry.device("d1");
      // After five attempts the retry delay has reached its maximum.
      expect(device.attempts).to.be.at.least(5);
      return device;
    });
    expect(seen).to.include({ attachState: AttachState.ATTACHING, lastError: "IO_ERROR: as told by the test" });
    const ordersBefore = agent.received.length;
    const sinceMs = performance.now();
    // Repeated calls do not speed up the retries.
    for (let i = 0; i < 20; i++) {
      await fleet.add();
      await delay(30);
    }
    const ordersMeanwhile = agent.received.length - ordersBefore;
    const mostOrders = (2 * (performance.now() - sinceMs)) / 100;
    expect(ordersMeanwhile, "tries back off, here to 100 ms at least").to.be.within(1, mostOrders);
    failing = false;
    expect(await fleet.inState("d1", AttachState.ATTACHED)).to.include({ attempts: 0, lastError: "" });
    const attaches = agent.received.filter((order) => order.kind === "attach");
    expect(
      new Set(attaches.map((order) => order.deviceIds.join())).size,
      "what fails together is tried together",
    ).to.equal(1);
    expect(
      new Set(attaches.flatMap((order) => order.generations)).size,
      "all tries carry one generation each",
    ).to.equal(2);
  });

  it("refuses a device id of another host with that host's name, and accepts it once it is purged there", async () => {
    await (await fleet.registry.agent("h1", ["d1"])).register();
    const renamed = await fleet.registry.agent("h2", ["d1", "d2"]);
    const answer = await renamed.register();
    const refused = answer.unknownDevices.find(({ deviceId }) => deviceId === "d1");
    expect(refused?.reason).to.contain("the device id belongs to host h1");
    const lacking = async () => (await fleet.registry.operator.getHost({ hostId: "h2" })).host?.foreignDevices;
    expect(await lacking()).to.deep.equal([{ deviceId: "d1", hostId: "h1" }]);
    await renamed.heartbeat();
    await fleet.registry.operator.purgeHost({ hostId: "h1" });
    await rejection(renamed.heartbeat(), AbortedError, "register again");
    await renamed.register();
    expect(await lacking()).to.deep.equal([]);
    expect((await fleet.registry.device("d1")).hostId).to.equal("h2");
  });

  it("attaches an unreachable agent's devices under the same generation once the agent is back", async () => {
    const agent = await fleet.registry.agent("h1", ["d1"]);
    await agent.register();
    await agent.stop();
    await fleet.add();
    const waiting = await eventually(async () => {
      const device = await fleet.registry.device("d1");
      expect(device.attempts).to.be.at.least(1);
      return device;
    });
    expect(waiting.lastError).to.contain("127.0.0.1");
    await agent.start();
    await agent.register();
    expect((await fleet.inState("d1", AttachState.ATTACHED)).deviceGeneration).to.equal(waiting.deviceGeneration);
  });

  it("continues an attach after a kill, with a higher tablet generation", async () => {
    const agent = await fleet.registry.agent("h1", ["d1", "d2"]);
    await agent.register();
    let hang = true;
    const reached = new Promise<void>((resolve) => {
      agent.before = async (kind) => {
        if (kind === "attach" && hang) {
          resolve();
          await new Promise((_, reject) => setTimeout(() => reject(new UnavailableError("gone")), 500));
        }
        return undefined;
      };
    });
    await fleet.add();
    await reached;
    const before = await fleet.registry.device("d1");
    await fleet.registry.process.kill();
    hang = false;
    await fleet.registry.process.start();
    // No agent registers again: the new process continues the pending order from its stored state.
    const after = await fleet.inState("d1", AttachState.ATTACHED);
    expect(after.deviceGeneration).to.equal(before.deviceGeneration);
    expect(after.tabletGeneration).to.equal(before.tabletGeneration + 1);
    expect(agent.orders.get("d1")?.stamp.tabletGeneration).to.equal(after.tabletGeneration);
  });

  it("answers ABORTED to an earlier start of an agent, and sends it no orders until it registers", async () => {
    const agent = await fleet.readyAgent("h1", ["d1"]);
    await rejection(agent.heartbeat("h1", "some-other-boot"), AbortedError);
    await agent.stop();
    await agent.start();
    await rejection(agent.heartbeat(), AbortedError);
    await fleet.remove();
    await eventually(async () => expect((await fleet.registry.device("d1")).lastError).to.contain("was restarted"));
    await agent.register();
    await fleet.inState("d1", AttachState.DETACHED);
  });
});
