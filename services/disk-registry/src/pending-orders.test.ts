import { OrderOutcome } from "@diskmesh/api/internal";
import type { Pending } from "@diskmesh/api/registry";
import { AttachState } from "@diskmesh/api/registry";
import { UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { SharedRegistry } from "./testing/shared-registry.js";

describe("disk-registry shows the causes of agents' waits", () => {
  const fleet = SharedRegistry.forAllTests();
  const message = "device file is draining, with 3 operations in flight";
  const waiting = { message, pendingMs: 45_000, inFlightOperations: 3 };

  const expectHang = (pending: Pending | undefined) => {
    expect(pending).to.include({ deviceId: "d1", message, inFlightOperations: 3 });
    const forMs = Date.now() - (pending?.startTime?.getTime() ?? 0);
    expect(forMs).to.be.within(44_000, 120_000);
  };

  it("a hanging detach shows its reason, age and operations, in the device and in the removal's answer", async () => {
    const agent = await fleet.readyAgent("h1", ["d1"]);
    agent.waiting = waiting;
    let hangs = true;
    agent.before = async (kind) => (kind === "detach" && hangs ? OrderOutcome.PENDING : undefined);
    await fleet.remove();
    await eventually(async () => expectHang((await fleet.registry.device("d1")).pending));
    const { devices } = await fleet.registry.operator.listDevices({ hostId: "h1" });
    expectHang(devices[0]?.pending);
    const removal = await fleet.registry.operator.removeDevice({ hostId: "h1", deviceId: "d1" });
    expect(removal.result?.code).to.equal("ACTION_CODE_E_TRY_AGAIN");
    expect(removal.result?.message).to.match(
      /waits for: device file is draining, with 3 operations in flight, for 4\d s/,
    );
    hangs = false;
    expect(await fleet.inState("d1", AttachState.DETACHED)).to.include({ pending: undefined });
  });

  it("a session that is not granted is shown in the disk and in the answer of UnpublishDisk", async () => {
    const agent = await fleet.readyAgent("h1", ["d1"]);
    const { operator } = fleet.registry;
    await fleet.createDisk("x");
    await operator.publishDisk({ diskId: "x", hostId: "h1" });
    agent.waiting = waiting;
    agent.sessionsArePending = true;
    // The progress is reported shortly before the deadline, which may be too late on a busy machine.
    await eventually(async () => {
      const error = await rejection(operator.unpublishDisk({ diskId: "x" }, { deadlineMs: 2_000 }), UnavailableError);
      expect(error.message).to.match(/on device d1 of host h1: PENDING: .* 3 operations in flight, for 4\d s/);
    });
    const stuck = (await operator.getDisk({ diskId: "x" })).disk?.publication;
    expectHang(stuck?.pending[0]);
    agent.sessionsArePending = false;
    await eventually(async () =>
      expect((await operator.getDisk({ diskId: "x" })).disk?.publication).to.equal(undefined),
    );
  });

  it("a hanging erase is shown in the device and in the removal's answer", async () => {
    const agent = await fleet.registry.agent("h1", ["d1"]);
    await agent.register();
    agent.waiting = waiting;
    agent.beforeErase = async () => OrderOutcome.PENDING;
    await fleet.add();
    await eventually(async () => expectHang((await fleet.registry.device("d1")).pending));
    expect((await fleet.remove())?.message).to.match(
      /is being erased.*waits for: .* 3 operations in flight, for 4\d s/,
    );
  });
});
