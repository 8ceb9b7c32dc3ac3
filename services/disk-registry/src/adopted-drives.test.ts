import { LabelState, type ReportedDevice } from "@diskmesh/api/internal";
import { AttachState, DeviceLabelState, PublicationState } from "@diskmesh/api/registry";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { refused } from "./testing/calls.js";
import { SharedRegistry } from "./testing/shared-registry.js";

const LABEL_ID = "5".repeat(32);

describe("disk-registry and drives with labels", () => {
  const fleet = SharedRegistry.forAllTests();

  /** Returns the report of a drive with the label of device d1. */
  const labelled = (device: ReportedDevice, fleetId: string, change: Partial<ReportedDevice> = {}): ReportedDevice => {
    const label = { fleetId, deviceId: "d1", labelId: LABEL_ID, sizeBytes: 0, sliceBytes: 0, offsetBytes: 0 };
    return { ...device, serialNumber: "serial-1", labelState: LabelState.VALID, label, ...change };
  };

  it("serve a disk again where its drive is now, once the drive is adopted there, and only in new sessions", async () => {
    const { registry } = fleet;
    const { operator } = registry;
    const former = await fleet.readyAgent("h1", ["d1"]);
    const fleetId = former.obeys.tabletId;
    former.report = (device) => labelled(device, fleetId);
    await former.register();
    expect(await registry.device("d1")).to.include({
      labelState: DeviceLabelState.OWN,
      labelId: LABEL_ID,
      serialNumber: "serial-1",
    });
    await fleet.createDisk("a", { hostId: "h1" });
    await fleet.readyAgent("h3", []);
    await operator.publishDisk({ diskId: "a", hostId: "h3" });
    const before = (await registry.disk("a")).publication?.sessionNumber ?? 0;

    const now = await registry.agent("h2", ["p1"]);
    now.report = (device) => labelled(device, fleetId);
    now.held.clear();
    await now.register();
    now.startHeartbeats(50);
    const place = { hostId: "h2", deviceId: "p1" };
    await refused(operator.adoptDevice(place), "InvalidStateError", "host h1 still reports device d1");
    expect((await registry.device("d1")).trouble?.code).to.equal("LABEL_TWICE");

    former.held.clear();
    former.report = (device) => ({ ...device, health: "HEALTH_ERROR", healthMessage: "there is no such file" });
    await former.register();
    for (const deviceId of ["d1", "p1"])
      expect((await registry.device(deviceId)).trouble?.code, deviceId).to.equal("FOUND_ELSEWHERE");
    await refused(operator.addDevice({ ...place, eraseForeign: true }), "InvalidStateError", "holds disk a");
    expect((await operator.adoptDevice(place)).result).to.include({ code: "ACTION_CODE_S_OK" });

    await fleet.inState("p1", AttachState.ATTACHED);
    await eventually(async () => {
      const { publication, parts } = await registry.disk("a");
      expect(publication?.state, publication?.lastError).to.equal(PublicationState.PUBLISHED);
      expect(parts.flatMap(({ copies }) => copies.map(({ deviceId }) => deviceId))).to.deep.equal(["p1"]);
      expect(publication?.sessionNumber).to.be.greaterThan(before);
      expect(now.sessions.get("p1")?.sessionNumber).to.equal(publication?.sessionNumber);
    });
    expect((await operator.adoptDevice(place)).result?.code).to.equal("ACTION_CODE_S_ALREADY");

    // The former host comes back with a copy of the drive.
    former.report = (device) => labelled(device, fleetId, { serialNumber: "serial-of-the-copy", attached: false });
    await former.register();
    expect((await registry.device("d1")).attachState).to.equal(AttachState.UNKNOWN);
    await refused(operator.addHost({ hostId: "h1" }), "InvalidStateError", "label of device p1");
    expect((await registry.device("p1")).labelState).to.equal(DeviceLabelState.OWN);
  });

  it("refuse a drive of another fleet, except to erase it", async () => {
    const { operator } = fleet.registry;
    const agent = await fleet.registry.agent("h1", ["d1"]);
    agent.report = (device) => labelled(device, "another-fleet");
    await agent.register();
    await refused(operator.addHost({ hostId: "h1" }), "InvalidStateError", "DEVICE_OF_ANOTHER_FLEET");
    expect((await fleet.registry.device("d1")).foreignLabel).to.include({
      fleetId: "another-fleet",
      labelId: LABEL_ID,
    });
    agent.startHeartbeats(50);
    expect((await operator.addHost({ hostId: "h1", eraseForeign: true })).result?.code).to.equal("ACTION_CODE_S_OK");
    await fleet.inState("d1", AttachState.ATTACHED);
    await fleet.clean("d1");
  });

  it("refuse a device alone whose label is malformed", async () => {
    const agent = await fleet.registry.agent("h1", ["d1", "d2"]);
    agent.report = (device) => {
      const found = labelled(device, "another-fleet", { serialNumber: `serial-${device.deviceId}` });
      const { label } = found;
      return device.deviceId === "d1" && label ? { ...found, label: { ...label, labelId: "../x" } } : device;
    };
    const { unknownDevices } = await agent.register();
    expect(unknownDevices.find(({ deviceId }) => deviceId === "d1")?.reason).to.match(/label_id must have 32/);
    expect((await fleet.registry.device("d2")).attachState).to.equal(AttachState.UNKNOWN);
  });
});
