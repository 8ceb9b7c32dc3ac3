import { expect } from "chai";
import {
  aDevice,
  aDisk,
  aHost,
  type DeviceFields,
  deviceId,
  diskId,
  hostId,
  MIB,
  TestFleet,
} from "../../testing/fleet-fixture.js";
import { NOW_MS, register, registration, reported } from "../../testing/registrations.js";
import { NO_SHARED_SERIAL_NUMBERS } from "../devices/same-bytes.js";
import { partsOn } from "../store/layout.js";
import type { Device, Disk, Host, Publication } from "../store/schema.js";
import { adoptDevice } from "./adopt-action.js";

const LABEL = "a".repeat(32);
const sliced = (id: string, { runs = [], ...fields }: DeviceFields): Device => ({
  ...aDevice(id, { sliceBytes: MIB, ...fields }),
  runs,
});
const run = { first: 3, count: 5, diskId: diskId("a") };
const PUBLISHED: Publication = {
  hostId: hostId("h3"),
  state: "PUBLISHED",
  sessionNumber: 7,
  exportPath: "/x",
  attempts: 0,
  lastError: "",
};

interface Given {
  readonly former?: DeviceFields;
  readonly place?: DeviceFields;
  readonly disk?: Partial<Disk>;
  readonly formerHost?: Partial<Host>;
  readonly host?: Partial<Host>;
}

/** Device d1 of h1 holds disk a; its drive is found in the place of device p1 of h2. */
function moved({ former, place, disk, formerHost, host }: Given = {}): TestFleet {
  const space = { deviceId: deviceId("d1"), sizeBytes: 4 * MIB, slices: { first: 3, count: 5, sliceBytes: MIB } };
  return new TestFleet({
    hosts: [aHost("h1", { slices: true, ...formerHost }), aHost("h2", { slices: true, ...host }), aHost("h3")],
    devices: [
      sliced("d1", {
        ...{ runs: [run], label: { labelId: LABEL }, missing: true, health: "ERROR", generation: 5 },
        ...former,
      }),
      sliced("p1", {
        ...{ hostId: hostId("h2"), attachState: "UNKNOWN", serialNumber: "serial-d1", generation: 6 },
        ...{ labelState: "VALID", foundLabel: { labelId: LABEL, deviceId: deviceId("d1") } },
        ...place,
      }),
    ],
    disks: [aDisk("a", ["d1"], { parts: partsOn([space]), sizeBytes: 4 * MIB, lastSessionNumber: 7, ...disk })],
  });
}

const adopt = (fleet: TestFleet, id = "p1") =>
  fleet.transact((tx) =>
    adoptDevice(tx, { deviceId: deviceId(id) }, { nowMs: NOW_MS, shared: NO_SHARED_SERIAL_NUMBERS }),
  );

const refusals: readonly { readonly title: string; readonly given: Given; readonly says: RegExp }[] = [
  { title: "its agent has not said that it is gone", given: { former: { missing: undefined } }, says: /in its place/ },
  { title: "the place has disks", given: { place: { runs: [{ ...run, diskId: diskId("b") }] } }, says: /disk b there/ },
  { title: "the drive is too small", given: { place: { sizeBytes: 32 * MIB } }, says: /32 MiB, and the device 64 MiB/ },
  { title: "the drive has other blocks", given: { place: { blockSizeBytes: 512 } }, says: /blockSizeBytes/ },
  { title: "the place is in another az", given: { host: { az: "z2" } }, says: /disk a is in az z1/ },
  { title: "the host of the place is DEAD", given: { host: { state: "DEAD" } }, says: /h2 is DEAD/ },
  { title: "the host of the place is to be removed", given: { host: { removalRequested: true } }, says: /be removed/ },
  { title: "its agent knows no slices", given: { host: { slices: undefined } }, says: /does not know slices/ },
  {
    title: "the drive has a former label of the device",
    given: { former: { label: { labelId: "b".repeat(32) } } },
    says: /former label of device d1/,
  },
  {
    title: "a disk has lost bytes with a device of the place's id",
    given: { disk: { parts: partsOn(["d1", "p1"].map((id) => ({ deviceId: deviceId(id), sizeBytes: 4 * MIB }))) } },
    says: /disk a has lost bytes that were on device p1/,
  },
  {
    title: "the label is of another fleet",
    given: { place: { foundLabel: { labelId: "c".repeat(32), deviceId: deviceId("d1"), fleetId: "other" } } },
    says: /fleet other/,
  },
];

describe("AdoptDevice", () => {
  it("has the device with its disks in the place of the drive, and grants only new sessions there", () => {
    const fleet = moved({ disk: { publication: PUBLISHED } });
    expect(adopt(fleet)).to.include({ code: "S_OK" });
    expect(fleet.tables.devices.get(deviceId("d1"))).to.equal(undefined);
    expect(fleet.device("p1")).to.deep.include({
      ...{ hostId: "h2", attachState: "ATTACHING", generation: 101, health: "ONLINE", sliceBytes: MIB },
      ...{ label: { labelId: LABEL }, lastSessionNumber: 200, endedSessionNumber: 200 },
    });
    expect(fleet.device("p1").runs).to.deep.include(run);
    const disk = fleet.tables.disks.get(diskId("a"));
    expect(disk?.parts[0]?.copies).to.deep.equal([{ deviceId: "p1", first: 3, state: "COUNTS" }]);
    expect(disk?.publication).to.include({ state: "PUBLISHING", hostId: "h3", sessionNumber: 201 });
    expect(fleet.tables.hosts.get(hostId("h1"))?.mustRegister).to.equal(true);
  });

  it("erases what no disk has, because the drive may have been used, or may be a copy", () => {
    const fleet = moved();
    adopt(fleet);
    const slices = fleet.device("p1").runs.map(({ first, count, diskId: on }) => [first, count, on]);
    expect(slices[0]).to.deep.equal([0, 3, ""]);
    expect(slices[1]).to.deep.equal([3, 5, "a"]);
    expect(slices[2]?.[2]).to.equal("");
  });

  it("an unpublished disk gets a session that nobody holds", () => {
    const fleet = moved();
    adopt(fleet);
    expect(fleet.tables.disks.get(diskId("a"))?.publication).to.include({ state: "UNPUBLISHING", sessionNumber: 201 });
  });

  it("the adopted drive is the device after its agent has started again", () => {
    const fleet = moved();
    adopt(fleet);
    const report = reported("p1", { serialNumber: "serial-d1", attached: false, labelState: "VALID" });
    const readLabel = { fleetId: "tablet-1", deviceId: deviceId("d1"), labelId: LABEL };
    const { az, rack } = aHost("h2");
    const start = { hostId: hostId("h2"), az, rack, bootId: "h2-boot-2", slices: true };
    register(fleet, registration([{ ...report, readLabel }], start));
    expect(fleet.device("p1").replacement).to.equal(undefined);
  });

  it("the host of the former place is DEAD by an operator's word -> adopted", () => {
    expect(adopt(moved({ former: { missing: undefined }, formerHost: { state: "DEAD" } })).code).to.equal("S_OK");
  });

  it("other hardware, or nothing at all, is in the former place -> adopted", () => {
    const { path, offsetBytes, sizeBytes, blockSizeBytes, serialNumber } = aDevice("x1");
    const replacement = { path, offsetBytes, sizeBytes, blockSizeBytes, serialNumber };
    expect(adopt(moved({ former: { missing: undefined, replacement } })).code).to.equal("S_OK");
    expect(adopt(moved({ former: { missing: undefined, nothingThere: true } })).code).to.equal("S_OK");
  });

  it("a copy in the device's own place is the device from then on", () => {
    const { path, offsetBytes, sizeBytes, blockSizeBytes } = aDevice("d1");
    const replacement = {
      ...{ path, offsetBytes, sizeBytes: 2 * sizeBytes, blockSizeBytes, serialNumber: "serial-of-the-copy" },
      refusedFor: "LABEL_ON_OTHER_HARDWARE" as const,
    };
    const fleet = moved({
      former: { missing: undefined, replacement, labelState: "VALID" },
      disk: { publication: PUBLISHED },
    });
    expect(adopt(fleet, "d1").code).to.equal("S_OK");
    const device = fleet.device("d1");
    expect(device).to.deep.include({ serialNumber: "serial-of-the-copy", sizeBytes, label: { labelId: LABEL } });
    expect(device.replacement).to.equal(undefined);
    expect(fleet.tables.disks.get(diskId("a"))?.publication?.sessionNumber).to.equal(201);
    expect(adopt(fleet, "d1").code).to.equal("S_ALREADY");
  });

  for (const { title, given, says } of refusals)
    it(`${title} -> refused`, () => {
      const fleet = moved(given);
      expect(() => adopt(fleet)).to.throw(says);
      expect(fleet.device("d1").hostId).to.equal("h1");
    });
});
