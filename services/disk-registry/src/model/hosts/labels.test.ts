import { expect } from "chai";
import {
  aDevice,
  aDisk,
  aHost,
  type DeviceFields,
  deviceId,
  diskId,
  hostId,
  leader,
  MIB,
  TestFleet,
} from "../../testing/fleet-fixture.js";
import { NOW_MS, register, registration, reported } from "../../testing/registrations.js";
import type { ReportedDevice } from "../devices/reported-devices.js";
import { NO_SHARED_SERIAL_NUMBERS } from "../devices/same-bytes.js";
import type { ReportedLabel } from "../identity/labels.js";
import { labelDue, withLabel } from "../store/label-due.js";
import type { Device, Host } from "../store/schema.js";
import { addDevice } from "./add-action.js";
import { confirmDevice } from "./confirm-action.js";

const OWN = "a".repeat(32);
const OTHER = "b".repeat(32);
const NEW = "c".repeat(32);
const call = { nowMs: NOW_MS, waitingRetryAfterMs: 1, shared: NO_SHARED_SERIAL_NUMBERS };

const label = (labelId: string, names = "d1", fleetId = leader.tabletId): ReportedLabel => ({
  labelState: "VALID",
  readLabel: { fleetId, deviceId: deviceId(names), labelId },
});

const SERIAL = { serialNumber: "serial-d1" };
const OF_BOOT_1 = { serialNumber: "", fileIdentity: "boot-1 block 8:16:1" };
const OF_BOOT_2 = { serialNumber: "", fileIdentity: "boot-2 block 8:32:1" };
const ELSE = { serialNumber: "serial-of-another" };
const UNLABELLED: DeviceFields = { sliceBytes: MIB, runs: [{ first: 0, count: 2, diskId: diskId("a") }] };
const HELD: DeviceFields = { ...UNLABELLED, label: { labelId: OWN }, labelState: "VALID" };
const WHOLE: DeviceFields = { diskId: diskId("a") };

/** Registers h1 after a start of its agent, with the report of d1, and others. */
function restart(fleet: TestFleet, report: Partial<ReportedDevice>, ...others: ReportedDevice[]) {
  const devices = [reported("d1", { attached: false, ...report }), ...others];
  return register(fleet, registration(devices, { bootId: "h1-boot-2", slices: true }));
}

/** Returns a device with the given runs, if any. */
const deviceOf = (id: string, fields: DeviceFields): Device => ({
  ...aDevice(id, fields),
  ...(fields.runs && { runs: fields.runs }),
});

const fleetOf = (fields: DeviceFields, ...others: DeviceFields[]): TestFleet =>
  new TestFleet({
    hosts: [aHost("h1", { slices: true }), aHost("h2", { slices: true })],
    devices: [deviceOf("d1", fields), ...others.map((each, at) => deviceOf(`d${at + 2}`, each))],
    disks: [aDisk("a", ["d1"])],
  });

interface Row {
  readonly title: string;
  readonly known: DeviceFields;
  readonly found: Partial<ReportedDevice>;
  /** Undefined: accepted. */
  readonly refused?: string;
  readonly label?: string | undefined;
}

const rows: readonly Row[] = [
  { title: "its label, its serial number", known: { ...HELD }, found: { ...SERIAL, ...label(OWN) }, label: OWN },
  {
    title: "its label, a drive without a serial number after a boot",
    known: { ...HELD, ...OF_BOOT_1 },
    found: { ...OF_BOOT_2, ...label(OWN) },
    label: OWN,
  },
  {
    title: "its label, another serial number",
    known: HELD,
    found: { ...ELSE, ...label(OWN) },
    refused: "LABEL_ON_OTHER_HARDWARE",
    label: OWN,
  },
  {
    title: "its label, no serial number where one is recorded",
    known: HELD,
    found: { ...OF_BOOT_2, ...label(OWN) },
    refused: "LABEL_ON_OTHER_HARDWARE",
    label: OWN,
  },
  {
    title: "its label, a serial number where none is recorded",
    known: { ...HELD, ...OF_BOOT_1 },
    found: { ...ELSE, fileIdentity: OF_BOOT_2.fileIdentity, ...label(OWN) },
    refused: "LABEL_ON_OTHER_HARDWARE",
    label: OWN,
  },
  { title: "no label read, its serial number", known: HELD, found: SERIAL, label: OWN },
  {
    title: "no label read, a drive without a serial number after a boot",
    known: { ...HELD, ...OF_BOOT_1 },
    found: OF_BOOT_2,
    refused: "UNIDENTIFIED",
    label: OWN,
  },
  {
    title: "no label, its serial number, a disk on it",
    known: HELD,
    found: { ...SERIAL, labelState: "NONE" },
    refused: "LABEL_LOST",
    label: OWN,
  },
  {
    title: "a damaged label, its serial number, a disk on it",
    known: HELD,
    found: { labelState: "DAMAGED" },
    refused: "LABEL_LOST",
    label: OWN,
  },
  {
    title: "no label, its serial number, no disk on it",
    known: { ...HELD, runs: [] },
    found: { ...SERIAL, labelState: "NONE" },
    label: undefined,
  },
  {
    title: "a damaged label, a drive without a serial number after a boot",
    known: { ...HELD, ...OF_BOOT_1 },
    found: { ...OF_BOOT_2, labelState: "DAMAGED" },
    refused: "UNIDENTIFIED",
    label: OWN,
  },
  {
    title: "an unrecorded label, its serial number",
    known: UNLABELLED,
    found: { ...SERIAL, ...label(NEW) },
    label: NEW,
  },
  {
    title: "an unrecorded label, a drive without a serial number after a boot",
    known: { ...UNLABELLED, ...OF_BOOT_1 },
    found: { ...OF_BOOT_2, ...label(NEW) },
    refused: "LABEL_ON_OTHER_HARDWARE",
    label: undefined,
  },
  {
    title: "the label of another fleet, its serial number",
    known: HELD,
    found: { ...SERIAL, ...label(NEW, "d1", "another-tablet") },
    refused: "LABEL_OF_OTHER_FLEET",
    label: OWN,
  },
  {
    title: "the label of a device that nobody knows",
    known: HELD,
    found: { ...SERIAL, ...label(NEW, "d9") },
    refused: "LABEL_OF_OTHER_FLEET",
    label: OWN,
  },
  {
    title: "the label of another device, its serial number: another drive was copied onto it",
    known: HELD,
    found: { ...SERIAL, ...label(OTHER, "d2") },
    refused: "LABEL_OF_OTHER_DEVICE",
    label: OWN,
  },
  {
    title: "the label of another fleet where a disk of 0.1.0 has all bytes, its serial number",
    known: WHOLE,
    found: { ...SERIAL, ...label(NEW, "d1", "another-tablet") },
  },
  {
    title: "a label where a disk of 0.1.0 has all bytes, a drive without a serial number after a boot",
    known: { ...WHOLE, ...OF_BOOT_1 },
    found: { ...OF_BOOT_2, ...label(NEW) },
    refused: "UNIDENTIFIED",
  },
  {
    title: "a label where the bytes of a disk of 0.1.0 are to be erased, its serial number",
    known: { runs: [{ first: 0, diskId: "", lastSessionNumber: 5 }] },
    found: { ...SERIAL, ...label(OTHER, "d2") },
  },
];

describe("labels", () => {
  for (const { title, known, found, refused, label: after } of rows)
    it(`${title} -> ${refused ?? "accepted"}`, () => {
      const fleet = fleetOf(known, { label: { labelId: OTHER }, hostId: hostId("h2") });
      restart(fleet, found);
      const device = fleet.device("d1");
      expect(device.replacement?.refusedFor).to.equal(refused);
      expect(device.label?.labelId).to.equal(after);
      expect(device.health).to.equal(refused === undefined ? "ONLINE" : "ERROR");
      if (refused !== undefined) expect(device.healthMessage).to.match(/label|confirm/i);
    });

  it("an accepted drive without a serial number is opened under the identity of this boot, and not distrusted", () => {
    const fleet = fleetOf({ ...OF_BOOT_1, label: { labelId: OWN }, sliceBytes: MIB });
    const { allowed } = restart(fleet, { ...OF_BOOT_2, ...label(OWN) });
    expect(allowed[0]?.expected).to.deep.include(OF_BOOT_2);
    expect(fleet.device("d1").runs).to.deep.equal([]);
  });

  it("drives without serial numbers that changed places are refused, and go on once they are back", () => {
    const other = { ...OF_BOOT_1, fileIdentity: "boot-1 block 8:48:1", label: { labelId: OTHER } };
    const fleet = fleetOf({ ...HELD, ...OF_BOOT_1 }, other);
    const second = { ...OF_BOOT_2, fileIdentity: "boot-2 block 8:48:1", attached: false };
    restart(fleet, { ...OF_BOOT_2, ...label(OTHER, "d2") }, reported("d2", { ...second, ...label(OWN, "d1") }));
    for (const id of ["d1", "d2"])
      expect(fleet.device(id).replacement?.refusedFor, id).to.equal("LABEL_OF_OTHER_DEVICE");
    restart(fleet, { ...OF_BOOT_2, ...label(OWN) }, reported("d2", { ...second, ...label(OTHER, "d2") }));
    for (const id of ["d1", "d2"]) {
      expect(fleet.device(id).replacement, id).to.equal(undefined);
      expect(fleet.device(id).health, id).to.equal("ONLINE");
    }
  });

  it("the same label twice: the drive whose hardware is recorded goes on", () => {
    const fleet = fleetOf(HELD);
    restart(fleet, { ...SERIAL, ...label(OWN) }, reported("d3", { ...label(OWN), attached: false }));
    expect(fleet.device("d1").replacement).to.equal(undefined);
    expect(fleet.device("d3")).to.deep.include({
      attachState: "UNKNOWN",
      foundLabel: { labelId: OWN, deviceId: "d1" },
    });
  });

  it("a copy is added, to be erased, only while the drive with the disks is known to be in its place", () => {
    const fleet = fleetOf(HELD, { attachState: "UNKNOWN", hostId: hostId("h2") });
    const found = { labelState: "VALID", foundLabel: { labelId: OWN, deviceId: deviceId("d1") } } as const;
    fleet.transact((tx) => tx.devices.put({ ...fleet.device("d2"), ...found }));
    const add = (eraseForeign: boolean) => () =>
      fleet.transact((tx) => addDevice(tx, { deviceId: deviceId("d2") }, { ...call, eraseForeign }));
    expect(add(false)).to.throw(/carries the label of device d1, which is in use/);
    const host = fleet.tables.hosts.get(hostId("h1")) as Host;
    const device = fleet.device("d1");
    const unknown: [Partial<Host>, DeviceFields][] = [
      [{ state: "UNAVAILABLE" }, {}],
      [{ mustRegister: true }, {}],
      [{}, { attachState: "ATTACHING" }],
    ];
    for (const [ofHost, ofDevice] of unknown) {
      fleet.transact((tx) => tx.hosts.put({ ...host, ...ofHost }));
      fleet.transact((tx) => tx.devices.put({ ...device, ...ofDevice }));
      expect(add(true)).to.throw(/holds disk a, and may be its drive: the agent of host h1 has not reported/);
    }
    fleet.transact((tx) => tx.hosts.put(host));
    const { serialNumber, fileIdentity = "" } = fleet.device("d2");
    for (const same of [
      { serialNumber, fileIdentity },
      { serialNumber: "", fileIdentity: "" },
    ]) {
      fleet.transact((tx) => tx.devices.put({ ...device, ...same }));
      expect(add(true)).to.throw(
        /may be its drive: its serial number does not distinguish it from the drive of device d1/,
      );
    }
    fleet.transact((tx) => tx.devices.put(device));
    expect(add(true)().code).to.equal("S_OK");
  });

  it("a label that a user of a disk of 0.1.0 wrote makes no other drive a copy", () => {
    const fleet = fleetOf(
      { ...HELD, ...OF_BOOT_1 },
      { runs: [{ first: 0, diskId: diskId("b") }], serialNumber: "serial-d2" },
    );
    const copied = reported("d2", { ...label(OWN), attached: false, serialNumber: "serial-d2" });
    restart(fleet, { ...OF_BOOT_2, ...label(OWN) }, copied);
    for (const id of ["d1", "d2"]) expect(fleet.device(id).replacement, id).to.equal(undefined);
    expect(fleet.device("d2").foundLabel).to.equal(undefined);
  });

  it("the same label twice, on drives without serial numbers after a boot: both wait", () => {
    const fleet = fleetOf({ ...HELD, ...OF_BOOT_1 });
    const copy = reported("d3", { ...OF_BOOT_2, fileIdentity: "boot-2 block 8:64:1", ...label(OWN), attached: false });
    restart(fleet, { ...OF_BOOT_2, ...label(OWN) }, copy);
    expect(fleet.device("d1").replacement?.refusedFor).to.equal("LABEL_TWICE");
    expect(fleet.device("d3").attachState).to.equal("UNKNOWN");
    restart(fleet, { ...OF_BOOT_2, ...label(OWN) });
    expect(fleet.device("d1").replacement?.refusedFor, "one is gone").to.equal("LABEL_TWICE");
  });

  it("a drive without a serial number whose copy was seen gets another label, and the copy is refused in its place", () => {
    const here = { ...OF_BOOT_2, ...label(OWN), attached: false };
    const fleet = fleetOf({ ...HELD, ...OF_BOOT_2 });
    const copy = { ...here, fileIdentity: "boot-2 block 8:64:1" };
    restart(fleet, here, reported("d3", copy));
    expect(fleet.device("d1").replacement).to.equal(undefined);
    expect(fleet.device("d1").formerLabelId).to.equal(OWN);
    expect(labelDue({ ...fleet.device("d1"), attachState: "ATTACHED" })).to.equal("write");
    fleet.transact((tx) => tx.devices.put(withLabel(fleet.device("d1"), NEW)));
    restart(fleet, { ...here, ...label(NEW) }, reported("d3", copy));
    expect(fleet.device("d1").label).to.deep.equal({ labelId: NEW });
    restart(fleet, { ...here, fileIdentity: "boot-3 block 8:32:1" });
    expect(fleet.device("d1").replacement?.refusedFor, "the copy").to.equal("LABEL_ON_OTHER_HARDWARE");
  });

  it("the same label in the place of another host: both wait", () => {
    const elsewhere: DeviceFields = {
      ...{ hostId: hostId("h2"), attachState: "UNKNOWN", serialNumber: "" },
      foundLabel: { labelId: OWN, deviceId: deviceId("d1") },
    };
    const fleet = fleetOf({ ...HELD, ...OF_BOOT_1 }, elsewhere);
    restart(fleet, { ...OF_BOOT_2, ...label(OWN) });
    expect(fleet.device("d1").replacement?.refusedFor).to.equal("LABEL_TWICE");
  });

  it("a device that is not in use has the identity of the drive found there, of which the label tells", () => {
    const fleet = fleetOf({ attachState: "UNKNOWN" }, { ...HELD, hostId: hostId("h2") });
    restart(fleet, { ...OF_BOOT_2, ...label(OWN, "d2") });
    expect(fleet.device("d1")).to.deep.include({ ...OF_BOOT_2, foundLabel: { labelId: OWN, deviceId: "d2" } });
  });

  it("a new device with a foreign label is added only to be erased, and its label is overwritten", () => {
    const fleet = fleetOf({ attachState: "UNKNOWN" });
    const foreign = label(OTHER, "x1", "another-tablet");
    restart(fleet, foreign);
    const add = (eraseForeign: boolean) =>
      fleet.transact((tx) => addDevice(tx, { deviceId: deviceId("d1") }, { ...call, eraseForeign }));
    expect(() => add(false)).to.throw(/DEVICE_OF_ANOTHER_FLEET.*device x1 of fleet another-tablet/);
    expect(add(true).code).to.equal("S_OK");
    // Registers again before the label is written.
    restart(fleet, foreign);
    const { replacement, attachState, label: own } = fleet.device("d1");
    expect({ replacement, attachState, own }).to.deep.equal({
      replacement: undefined,
      attachState: "ATTACHING",
      own: undefined,
    });
  });

  for (const health of ["ERROR", "ONLINE"] as const)
    it(`nothing identifies what is in its place, and the agent holds it with health ${health} -> ${health === "ERROR" ? "gone" : "there"}`, () => {
      const fleet = fleetOf({ ...HELD, ...SERIAL });
      register(fleet, registration([reported("d1", { serialNumber: "", health })], { slices: true }));
      const { nothingThere, attachState } = fleet.device("d1");
      expect({ nothingThere, attachState }).to.deep.equal({
        nothingThere: health === "ERROR" || undefined,
        attachState: "ATTACHED",
      });
    });

  it("a drive whose device is gone from its place is added only when nothing is on that device", () => {
    const gone: DeviceFields = { ...HELD, hostId: hostId("h2"), missing: true };
    const fleet = new TestFleet({
      hosts: [aHost("h1", { slices: true }), aHost("h2")],
      devices: [aDevice("d1", { attachState: "UNKNOWN" }), deviceOf("d2", gone)],
    });
    restart(fleet, label(OWN, "d2"));
    const add = () =>
      fleet.transact((tx) => addDevice(tx, { deviceId: deviceId("d1") }, { ...call, eraseForeign: true }));
    expect(add).to.throw(/gone from host h2 and holds disk a.*adopt-device h1 d1/);
    fleet.transact((tx) => tx.devices.put({ ...fleet.device("d2"), runs: [] }));
    expect(add().code).to.equal("S_OK");
    expect(fleet.device("d2").label).to.equal(undefined);
  });

  it("ConfirmDevice decides about drives without a label alone, and has the label written again", () => {
    const confirm = (fleet: TestFleet) =>
      fleet.transact((tx) =>
        confirmDevice(tx, { deviceId: deviceId("d1") }, { nowMs: NOW_MS, shared: NO_SHARED_SERIAL_NUMBERS }),
      );
    const copied = fleetOf(HELD);
    restart(copied, { ...ELSE, ...label(OWN) });
    expect(() => confirm(copied)).to.throw(/cannot be confirmed: .*adopt-device h1 d1/);
    const erased = fleetOf({ ...HELD, ...OF_BOOT_1 });
    restart(erased, { ...OF_BOOT_2, labelState: "NONE" });
    expect(confirm(erased).code).to.equal("S_OK");
    expect(erased.device("d1").label).to.equal(undefined);
    expect(erased.device("d1").health).to.equal("ONLINE");
  });

  describe("a label that another program has overwritten", () => {
    const LOST = {
      ...SERIAL,
      labelState: "NONE",
      health: "ERROR",
      healthMessage: "device d1 has lost its label",
    } as const;
    const confirm = (fleet: TestFleet) =>
      fleet.transact((tx) =>
        confirmDevice(tx, { deviceId: deviceId("d1") }, { nowMs: NOW_MS, shared: NO_SHARED_SERIAL_NUMBERS }),
      );
    /** Registers h1 again, whose agent holds the device all the time. */
    const goOn = (fleet: TestFleet, report: Partial<ReportedDevice>) =>
      register(fleet, registration([reported("d1", { attached: true, ...report })], { slices: true }));
    const isDirtyBeside = ({ runs }: Device) => runs.some(({ diskId: id }) => id === "");

    it("leaves a held device with a disk in operation, in ERROR, and nothing labels it", () => {
      const fleet = fleetOf(HELD);
      goOn(fleet, LOST);
      const device = fleet.device("d1");
      expect(device).to.deep.include({ attachState: "ATTACHED", health: "ERROR", label: { labelId: OWN } });
      expect(device.replacement).to.equal(undefined);
      expect(labelDue(device)).to.equal(undefined);
      goOn(fleet, { ...SERIAL, ...label(OWN) });
      expect(fleet.device("d1")).to.deep.include({ health: "ONLINE", label: { labelId: OWN } });
    });

    it("keeps a device with a disk out of use after a start of its agent, with the words of its agent", () => {
      const fleet = fleetOf(HELD);
      const { allowed } = restart(fleet, LOST);
      expect(allowed[0]?.labelId, "so that the agent refuses the drive, too").to.equal(OWN);
      const { attachState, healthMessage } = fleet.device("d1");
      expect(attachState).to.equal("ATTACHING");
      expect(healthMessage).to.match(/^device d1 has lost its label$/);
    });

    for (const [title, lose] of [
      ["held", goOn],
      ["started anew", restart],
    ] as const)
      it(`${title}: ConfirmDevice has the label written again, and erases what no disk has`, () => {
        const fleet = fleetOf(HELD);
        lose(fleet, LOST);
        const before = fleet.device("d1");
        expect(confirm(fleet).code).to.equal("S_OK");
        const device = fleet.device("d1");
        expect(device).to.deep.include({ attachState: "ATTACHING", health: "ONLINE" });
        expect(device.generation).to.be.greaterThan(before.generation);
        expect(device.label, "so that the agent expects none").to.equal(undefined);
        expect(labelDue({ ...device, attachState: "ATTACHED" })).to.equal("write");
        expect(isDirtyBeside(device)).to.equal(true);
        expect(confirm(fleet).code).to.equal("S_ALREADY");
      });

    for (const attachState of ["ATTACHED", "ATTACHING"] as const)
      it(`has a device without a disk that is ${attachState} erased and labelled by an order of its own`, () => {
        const fleet = fleetOf({ ...HELD, runs: [], attachState });
        const before = fleet.device("d1").generation;
        goOn(fleet, LOST);
        const device = fleet.device("d1");
        expect(device).to.include({ attachState: "ATTACHING" });
        expect(device.label).to.equal(undefined);
        expect(device.generation).to.be.greaterThan(before);
        expect(isDirtyBeside(device)).to.equal(true);
      });

    it("is none where a report is older than the label", () => {
      const fleet = fleetOf(HELD);
      goOn(fleet, { ...SERIAL, labelState: "NONE" });
      const device = fleet.device("d1");
      expect(device).to.include({ attachState: "ATTACHED", health: "ONLINE" });
      expect(device.label).to.equal(undefined);
      expect(labelDue(device)).to.equal("write");
    });
  });

  it("a drive without a serial number is added where it gets a label", () => {
    const add = (fleet: TestFleet) => fleet.transact((tx) => addDevice(tx, { deviceId: deviceId("d1") }, call));
    const unlabelled = fleetOf({ ...OF_BOOT_1, attachState: "UNKNOWN" });
    const waits = add(unlabelled);
    expect(waits.code).to.equal("E_TRY_AGAIN");
    expect(waits.message).to.match(/its label is not read yet/);
    expect(unlabelled.device("d1").attachState).to.equal("UNKNOWN");
    unlabelled.transact((tx) => tx.hosts.put(aHost("h1")));
    expect(() => add(unlabelled)).to.throw(/ConfirmDevice after each/);
    for (const labelState of ["NONE", "USERS"] as const)
      expect(add(fleetOf({ ...OF_BOOT_1, attachState: "UNKNOWN", labelState })).code).to.equal("S_OK");
  });
});
