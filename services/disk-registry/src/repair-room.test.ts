import { MIB_BYTES, ResourceExhaustedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { SharedRegistry } from "./testing/shared-registry.js";

const SIZE = 64 * MIB_BYTES;

describe("a pool that keeps repair room", () => {
  const fleet = SharedRegistry.forAllTests();
  const capacity = async () => (await fleet.registry.operator.getCapacity({})).pools[0];

  it("refuses the disk after which a host could not be emptied, so that each can be", async () => {
    await fleet.startOwn({ pools: { default: { keepRepairRoom: true } } });
    const { operator } = fleet.registry;
    await fleet.readyAgent("h1", ["d1"]);
    await fleet.readyAgent("h2", ["d2"]);
    await fleet.createDisk("x", { sizeBytes: SIZE });
    expect(await capacity()).to.include({ freeBytes: SIZE, repairBytes: SIZE });
    const refusal = await rejection(fleet.createDisk("y", { sizeBytes: 1 }), ResourceExhaustedError);
    expect(refusal.message).to.contain(`${SIZE} have to stay free, so that any one host can be emptied`);
    expect(refusal.reason).to.equal("NO_DEVICES_FIT");
    await rejection(
      operator.resizeDisk({ diskId: "x", sizeBytes: SIZE + 1 }),
      ResourceExhaustedError,
      "have to stay free",
    );
    const on = (await fleet.registry.disk("x")).parts[0]?.copies[0]?.hostId ?? "";
    await eventually(async () => expect((await fleet.remove(on))?.code).to.equal("ACTION_CODE_S_OK"));
    // One host is left, which cannot be emptied in any case.
    expect(await capacity()).to.include({ freeBytes: 0, repairBytes: 0 });
  });

  it("lets all bytes be taken where it does not keep any", async () => {
    await fleet.readyAgent("h1", ["d1"]);
    await fleet.readyAgent("h2", ["d2"]);
    await fleet.createDisk("x", { sizeBytes: 2 * SIZE });
    expect(await capacity()).to.include({ freeBytes: 0, repairBytes: SIZE });
  });
});
