import { expect } from "chai";
import { aDevice, aHost, deviceId, diskId, hostId, leader, MIB, TestFleet } from "../../testing/fleet-fixture.js";
import { registration, reported } from "../../testing/registrations.js";
import { addDevice } from "../hosts/add-action.js";
import { registerAgent } from "../hosts/registration.js";
import type { Device } from "../store/schema.js";

const KIB = 1_024;
const slices = { slices: true as const };
const onSlices = { sliceBytes: MIB, runs: [{ first: 0, count: 2, diskId: diskId("x") }] };

function add(fields: Partial<Device>, sliceBytes?: number, host: object = slices) {
  const fleet = new TestFleet({
    hosts: [aHost("h1", host)],
    devices: [{ ...aDevice("d1"), labelState: "NONE", ...fields }],
  });
  const call = { nowMs: 5, waitingRetryAfterMs: 1_000, sliceBytes };
  const act = () => fleet.transact((tx) => addDevice(tx, { deviceId: deviceId("d1") }, call));
  return { fleet, act };
}

describe("the slices of a device", () => {
  const taken: readonly [string, Partial<Device>, number | undefined, number | undefined][] = [
    ["added", { attachState: "UNKNOWN" }, undefined, MIB],
    ["added with a size", { attachState: "UNKNOWN" }, 4 * MIB, 4 * MIB],
    ["in operation", {}, undefined, MIB],
    ["in operation with slices of another size and no disk", { sliceBytes: MIB }, 4 * MIB, 4 * MIB],
    ["in operation with a disk of 0.1.0", { runs: [{ first: 0, diskId: diskId("x") }] }, undefined, MIB],
    ["with a disk on slices, and no size asked", onSlices, undefined, MIB],
    ["too small for a slice and its label", { sizeBytes: MIB }, undefined, undefined],
    [
      "smaller than its slices, as one with other hardware in its place",
      { sliceBytes: 4 * MIB, sizeBytes: 3 * MIB },
      undefined,
      MIB,
    ],
    [
      "smaller than any slice, with slices of former hardware",
      { sliceBytes: MIB, sizeBytes: MIB },
      undefined,
      undefined,
    ],
    ["of unknown size", { sizeBytes: 0 }, undefined, undefined],
  ];
  for (const [what, fields, sliceBytes, expected] of taken)
    it(`a device ${what} -> ${expected ?? "none"}`, () => {
      const { fleet, act } = add(fields, sliceBytes);
      act();
      expect(fleet.device("d1").sliceBytes).to.equal(expected);
    });

  it("are none while the agent does not know them", () => {
    const { fleet, act } = add({ attachState: "UNKNOWN" }, undefined, {});
    act();
    expect(fleet.device("d1").sliceBytes).to.equal(undefined);
  });

  const refused: readonly [string, Partial<Device>, number, object, RegExp][] = [
    ["no power of two", {}, 3 * MIB, slices, /power of two/],
    ["too small", {}, 512 * KIB, slices, /power of two/],
    ["larger than the device", {}, 64 * MIB, slices, /has no room/],
    ["for an agent of 0.1.0", {}, MIB, {}, /does not know them; upgrade it/],
    ["another while disks are on slices", onSlices, 2 * MIB, slices, /keeps slices of/],
  ];
  for (const [what, fields, sliceBytes, host, why] of refused)
    it(`a size that is ${what} is refused, and changes nothing`, () => {
      const { fleet, act } = add(fields, sliceBytes, host);
      const before = fleet.device("d1");
      expect(act).to.throw(why);
      expect(fleet.device("d1")).to.equal(before);
    });

  const register = (fleet: TestFleet, knowsSlices: boolean) =>
    fleet.transact((tx) =>
      registerAgent(tx, registration([reported("d1")], { slices: knowsSlices }), leader, { maxHosts: 9 }, 5),
    );

  it("come with the first registration of an agent that knows them, and with none but a free device changes", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1"), aDevice("d2", { hostId: hostId("h2") })] });
    register(fleet, false);
    expect(fleet.device("d1").sliceBytes).to.equal(undefined);
    register(fleet, true);
    expect([fleet.device("d1").sliceBytes, fleet.host("h1").slices]).to.deep.equal([MIB, true]);
    expect(
      fleet.changes((tx) => registerAgent(tx, registration([reported("d1")], slices), leader, { maxHosts: 9 }, 6)),
    ).to.equal(0);
    register(fleet, false);
    expect(fleet.host("h1").slices, "nothing lies on slices, so an older agent may come back").to.equal(undefined);
    expect(fleet.device("d1").sliceBytes, "and gets no orders about slices").to.equal(undefined);
  });

  it("with a disk on them refuse an agent that does not know them", () => {
    const fleet = new TestFleet({ hosts: [aHost("h1", slices)], devices: [{ ...aDevice("d1"), ...onSlices }] });
    expect(() => register(fleet, false)).to.throw("lie on slices of device d1: upgrade the agent");
    register(fleet, true);
  });
});
