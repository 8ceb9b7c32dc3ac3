import { setTimeout as delay } from "node:timers/promises";
import { OrderOutcome } from "@diskmesh/api/agent";
import { AttachState, HostState } from "@diskmesh/api/registry";
import { AbortedError, NotFoundError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { SharedRegistry } from "./testing/shared-registry.js";

describe("disk-registry takes devices in and out of operation", () => {
  const fleet = SharedRegistry.forAllTests();

  it("register -> UNKNOWN and let go; AddHost -> one order for all; RemoveHost -> E_TRY_AGAIN, then S_OK", async () => {
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

  it("an attach that fails -> tried again until it works, with attempts and error to be seen", async () => {
    const agent = await fleet.registry.agent("h1", ["d1", "d2"]);
    await agent.register();
    let failing = true;
    agent.before = async (kind) => (kind === "attach" && failing ? OrderOutcome.IO_ERROR : undefined);
    await fleet.add();
    const seen = await eventually(async () => {
      const device = await fleet.registry.device("d1");
      // By then the longest delay is reached.
      expect(device.attempts).to.be.at.least(5);
      return device;
    });
    expect(seen).to.include({ attachState: AttachState.ATTACHING, lastError: "IO_ERROR: as told by the test" });
    const ordersBefore = agent.received.length;
    const sinceMs = performance.now();
    // Callers who ask again and again do not make the tries come faster.
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

  it("a device id of another host -> refused with that host's name, and taken by itself once it is purged there", async () => {
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

  it("an agent that is down -> attached by itself once it is back, under the same generation", async () => {
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

  it("killed in the middle of an attach -> goes on after the restart, with a higher tablet generation", async () => {
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
    // Nobody registers: what was pending goes on from the registry's own state.
    const after = await fleet.inState("d1", AttachState.ATTACHED);
    expect(after.deviceGeneration).to.equal(before.deviceGeneration);
    expect(after.tabletGeneration).to.equal(before.tabletGeneration + 1);
    expect(agent.orders.get("d1")?.stamp.tabletGeneration).to.equal(after.tabletGeneration);
  });

  it("a confirmation that comes after RemoveDevice -> changes nothing; the detach follows", async () => {
    const agent = await fleet.registry.agent("h1", ["d1"]);
    await agent.register();
    let release: () => void = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const reached = new Promise<void>((resolve) => {
      agent.before = async (kind) => {
        if (kind === "attach") {
          resolve();
          await released;
        }
        return undefined;
      };
    });
    await fleet.add();
    await reached;
    // As it is: to be erased, it would have to be attached first.
    const request = { hostId: "h1", deviceId: "d1", keepData: true };
    expect((await fleet.registry.operator.removeDevice(request)).result?.code).to.equal("ACTION_CODE_E_TRY_AGAIN");
    const states: string[] = [];
    release();
    // One call at a time: those of a timer would pile up on a busy machine, until the registry refused them.
    await eventually(
      async () => {
        states.push((await fleet.registry.device("d1")).attachState);
        return states.at(-1) === AttachState.DETACHED;
      },
      { everyMs: 5 },
    );
    expect(states).not.to.include(AttachState.ATTACHED);
    expect(agent.held.has("d1")).to.equal(false);
    expect(agent.received.map((order) => order.kind).slice(-2)).to.deep.equal(["attach", "detach"]);
  });

  it("an answer that carries another stamp -> not believed", async () => {
    const agent = await fleet.registry.agent("h1", ["d1"]);
    await agent.register();
    let lying = true;
    agent.before = async (kind, request) => {
      // Reaches into the request that is answered: the stamp of the answer becomes an older one.
      const stamp = request.devices[0]?.stamp;
      if (kind === "attach" && lying && stamp) stamp.deviceGeneration -= 1;
      return undefined;
    };
    await fleet.add();
    await eventually(async () => {
      const device = await fleet.registry.device("d1");
      expect(device.attempts).to.be.at.least(2);
      expect(device).to.include({ attachState: AttachState.ATTACHING });
      expect(device.lastError).to.contain("does not name the attach");
    });
    lying = false;
    await fleet.inState("d1", AttachState.ATTACHED);
  });

  it("registers without holding an ATTACHED device -> attached again under the next generation", async () => {
    const agent = await fleet.readyAgent("h1", ["d1"]);
    const before = await fleet.registry.device("d1");
    agent.held.clear();
    const answer = await agent.register();
    expect(answer.allowedDevices.map((device) => device.stamp?.deviceGeneration)).to.deep.equal([
      before.deviceGeneration + 1,
    ]);
    await fleet.inState("d1", AttachState.ATTACHED);
  });

  it("a device id of another host -> not taken over, and the agent is told whose it is", async () => {
    await fleet.readyAgent("h1", ["d1"]);
    const second = await fleet.registry.agent("h2", ["d1"]);
    const answer = await second.register();
    expect(answer.unknownDevices[0]?.reason).to.contain("belongs to host h1");
    expect(second.held.size).to.equal(0);
    expect((await fleet.registry.device("d1")).hostId).to.equal("h1");
    const request = { hostId: "h2", deviceId: "d1" };
    const { result } = await fleet.registry.operator.addDevice(request);
    expect(result?.code).to.equal("ACTION_CODE_E_ARGUMENT");
    expect(result?.message).to.contain("belongs to host h1");
  });

  it("dry run -> the same answer, and nothing happens", async () => {
    const agent = await fleet.registry.agent("h1", ["d1"]);
    await agent.register();
    expect((await fleet.registry.operator.addHost({ hostId: "h1", dryRun: true })).result?.code).to.equal(
      "ACTION_CODE_S_OK",
    );
    expect((await fleet.registry.device("d1")).attachState).to.equal(AttachState.UNKNOWN);
    await fleet.add();
    await fleet.inState("d1", AttachState.ATTACHED);
    expect((await fleet.registry.operator.removeHost({ hostId: "h1", dryRun: true })).result?.code).to.equal(
      "ACTION_CODE_E_TRY_AGAIN",
    );
    expect((await fleet.registry.device("d1")).attachState).to.equal(AttachState.ATTACHED);
    expect((await fleet.registry.operator.purgeHost({ hostId: "h1", dryRun: true })).result?.code).to.equal(
      "ACTION_CODE_S_OK",
    );
    expect((await fleet.registry.device("d1")).attachState).to.equal(AttachState.ATTACHED);
  });

  it("purged host -> its agent's heartbeat says NOT_FOUND; registered again, everything is UNKNOWN and let go", async () => {
    const agent = await fleet.readyAgent("h1", ["d1"]);
    const { deviceGeneration } = await fleet.registry.device("d1");
    await fleet.registry.operator.purgeHost({ hostId: "h1" });
    await rejection(agent.heartbeat(), NotFoundError);
    await agent.register();
    expect(agent.held.size).to.equal(0);
    const device = await fleet.registry.device("d1");
    expect(device.attachState).to.equal(AttachState.UNKNOWN);
    expect(device.deviceGeneration).to.be.above(deviceGeneration);
  });

  it("silence -> UNAVAILABLE, a heartbeat -> ONLINE; removal of a silent host -> DETACHED unconfirmed after the timeout, let go when it is back", async () => {
    await fleet.startOwn({
      heartbeat: { intervalMs: 50, timeoutMs: 1_000, probationMs: 0 },
      // Not over before a busy machine has asked for the removal.
      unavailableRemovalTimeoutMs: 5_000,
    });
    const agent = await fleet.registry.agent("h1", ["d1"]);
    agent.startHeartbeats(50);
    await agent.register();
    await fleet.add();
    await fleet.inState("d1", AttachState.ATTACHED);
    const hostState = async () => (await fleet.registry.operator.getHost({ hostId: "h1" })).host?.state;
    agent.stopHeartbeats();
    await eventually(async () => expect(await hostState()).to.equal(HostState.UNAVAILABLE));
    await eventually(async () => {
      await agent.heartbeat();
      expect(await hostState()).to.equal(HostState.ONLINE);
    });
    await eventually(async () => expect(await hostState()).to.equal(HostState.UNAVAILABLE));
    const waiting = await fleet.remove();
    expect(waiting?.code).to.equal("ACTION_CODE_E_TRY_AGAIN");
    expect(waiting?.message).to.contain("UNAVAILABLE");
    const removed = await eventually(async () => {
      const result = await fleet.remove();
      expect(result?.code).to.equal("ACTION_CODE_S_OK");
      return result;
    });
    expect(removed?.message).to.contain("may still hold: d1");
    expect(agent.held.has("d1")).to.equal(true);
    await agent.register();
    expect(agent.held.has("d1")).to.equal(false);
    // A host that falls silent again gets no order.
    agent.startHeartbeats(50);
    await eventually(async () => expect((await fleet.registry.device("d1")).detachConfirmed).to.equal(true));
  });

  it("an earlier start of the agent -> ABORTED, and orders to it are refused until it registers", async () => {
    const agent = await fleet.readyAgent("h1", ["d1"]);
    await rejection(agent.heartbeat("h1", "some-other-boot"), AbortedError);
    await agent.stop();
    await agent.start();
    await rejection(agent.heartbeat(), AbortedError);
    await fleet.remove();
    await eventually(async () => expect((await fleet.registry.device("d1")).lastError).to.contain("started anew"));
    await agent.register();
    await fleet.inState("d1", AttachState.DETACHED);
  });
});
