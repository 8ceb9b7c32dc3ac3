import { OrderOutcome } from "@diskmesh/api/internal";
import { AttachState, HostState, type RemoveDeviceRequest } from "@diskmesh/api/registry";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { SharedRegistry } from "./testing/shared-registry.js";

describe("a removal that was asked for once", () => {
  const fleet = SharedRegistry.forAllTests();

  const waits = async (hostId: string, text: string) => {
    const result = await fleet.remove(hostId);
    expect(result?.code).to.equal("ACTION_CODE_E_TRY_AGAIN");
    expect(result?.message).to.contain(text);
  };
  const removeDevice = async (request: Partial<RemoveDeviceRequest>) => {
    const { result } = await fleet.registry.operator.removeDevice({ hostId: "h1", ...request });
    expect(result?.code).to.equal("ACTION_CODE_E_TRY_AGAIN");
  };
  const isOut = async (...deviceIds: string[]) => {
    for (const deviceId of deviceIds)
      expect((await fleet.inState(deviceId, AttachState.DETACHED)).detachConfirmed).to.equal(true);
  };

  it("of a host, ends once its disk has moved and its devices are erased, also after a kill", async () => {
    const source = await fleet.readyAgent("h1", ["d1", "d3"]);
    await fleet.createDisk("x", { az: "", hostId: "h1" });
    await fleet.createDisk("y", { az: "", hostId: "h1" });
    const target = await fleet.readyAgent("h2", ["d2", "d4"]);
    target.copying = { outcome: OrderOutcome.PENDING, copiedBytes: 0 };
    let isErased = false;
    source.beforeErase = async () => (isErased ? undefined : OrderOutcome.PENDING);
    await waits("h1", "holds 2 disks");
    target.copying = { outcome: OrderOutcome.DONE, copiedBytes: MIB_BYTES };
    await eventually(async () => {
      for (const deviceId of ["d1", "d3"]) expect((await fleet.registry.device(deviceId)).diskId).to.equal("");
    });
    await fleet.registry.process.kill();
    isErased = true;
    await fleet.registry.process.start();
    await isOut("d1", "d3");
    expect((await fleet.remove("h1"))?.code).to.equal("ACTION_CODE_S_OK");
  });

  it("of a host that serves a disk and is a VM, ends once both have ended", async () => {
    const { operator } = fleet.registry;
    await fleet.readyAgent("h1", ["d1"]);
    await operator.assignHost({ vmCid: "vm-1", az: "z1" });
    await fleet.readyAgent("h2", ["d2"]);
    await fleet.createDisk("x", { az: "", hostId: "h2" });
    await operator.publishDisk({ diskId: "x", hostId: "h1" });
    await waits("h1", "serves 1 disk");
    await operator.unpublishDisk({ diskId: "x" });
    await waits("h1", "is VM vm-1");
    await operator.unassignHost({ vmCid: "vm-1" });
    await isOut("d1");
  });

  it("of a device and of a path, ends once their disks are deleted and they are erased, alone and together", async () => {
    const agent = await fleet.registry.agent("h1", ["d1", "d2", "d3"]);
    agent.report = (device) => ({
      ...device,
      ...(device.deviceId !== "d1" && { path: "/dev/shared", offsetBytes: device.deviceId === "d2" ? 0 : 2 ** 30 }),
    });
    await agent.register();
    agent.startHeartbeats(50);
    await fleet.add();
    await fleet.clean("d1", "d2", "d3");
    for (const diskId of ["x", "y", "z"]) await fleet.createDisk(diskId);
    await removeDevice({ deviceId: "d1" });
    await removeDevice({ path: "/dev/shared" });
    agent.received.length = 0;
    for (const diskId of ["x", "y", "z"]) await fleet.registry.operator.deleteDisk({ diskId });
    await isOut("d1", "d2", "d3");
    expect(agent.received.some(({ deviceIds }) => deviceIds.includes("d2") && deviceIds.includes("d3"))).to.equal(true);
  });

  it("of a host that dies while it erases, ends without its confirmation once an operator declares it dead", async () => {
    const agent = await fleet.readyAgent("h1", ["d1", "d2"]);
    await fleet.createDisk("x");
    agent.beforeErase = async () => OrderOutcome.PENDING;
    await waits("h1", "holds 1 disk");
    await fleet.registry.operator.deleteDisk({ diskId: "x" });
    await fleet.registry.operator.setHostState({ hostIds: ["h1"], state: HostState.DEAD, reason: "it burns" });
    for (const deviceId of ["d1", "d2"])
      expect((await fleet.inState(deviceId, AttachState.DETACHED)).detachConfirmed).to.equal(false);
  });
});
