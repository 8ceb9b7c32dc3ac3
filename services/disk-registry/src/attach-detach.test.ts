import { setTimeout as delay } from "node:timers/promises";
import { OrderOutcome } from "@diskmesh/api/internal";
import { AttachState } from "@diskmesh/api/registry";
import { AbortedError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { msOfDuration } from "@diskmesh/rpc";
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
    expect(msOfDuration(first?.retryDelay)).to.be.above(0);
    await eventually(async () => expect((await fleet.remove())?.code).to.equal("ACTION_CODE_S_OK"));
    expect(agent.held.size).to.equal(0);
    expect((await fleet.inState("d1", AttachState.DETACHED)).detachConfirmed).to.equal(true);
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
