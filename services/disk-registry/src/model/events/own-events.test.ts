import { expect } from "chai";
import { aDevice, aHost } from "../../testing/fleet-fixture.js";
import { changesByThemselves } from "./own-events.js";

const broken = (count: number) =>
  Array.from({ length: count }, (_, index) => {
    const previous = aDevice(`d${index}`);
    return { tableName: "devices", previous, current: { ...previous, health: "ERROR", healthMessage: "EIO" } };
  });

describe("events of a registry's own changes", () => {
  it("some broken devices give an event each", () => {
    const events = changesByThemselves(broken(8));
    expect(events.map(({ action, deviceIds }) => [action, ...deviceIds])).to.deep.equal(
      Array.from({ length: 8 }, (_, index) => ["DeviceError", `d${index}`]),
    );
  });

  it("a fence gives one event, although the store copies it at each later change of the disk", () => {
    const fence = { hostId: "h1", by: "operator", atMs: 5, reason: "no power" };
    const disk = (fields: object) => ({ diskId: "a", parts: [], ...fields });
    const change = (previous: object, current: object) => ({ tableName: "disks", previous, current });
    const fenced = disk({ fence: { ...fence } });
    const events = [change(disk({}), fenced), change(fenced, disk({ fence: { ...fence }, health: "ERROR" }))];
    expect(changesByThemselves(events).map(({ action }) => action)).to.deep.equal(["DiskFenced"]);
    const again = change(fenced, disk({ fence: { ...fence, atMs: 6 } }));
    expect(changesByThemselves([again]).map(({ action }) => action)).to.deep.equal(["DiskFenced"]);
  });

  it("thousands of broken devices give one event with their number and the first ones; another kind has its own", () => {
    const host = { tableName: "hosts", previous: undefined, current: aHost("h2") };
    const [error, registered, ...none] = changesByThemselves([...broken(4_000), host]);
    expect(error).to.deep.include({ action: "DeviceError", more: true, hostIds: ["h1"] });
    expect(error?.deviceIds).to.have.length(64);
    expect(error?.message).to.equal("4000 times at once; the first: EIO");
    expect(registered).to.deep.include({ action: "HostRegistered", hostIds: ["h2"] });
    expect(none).to.deep.equal([]);
  });
});
