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
