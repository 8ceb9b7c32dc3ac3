import { expect } from "chai";
import { aDevice, aHost, type DeviceFields, deviceId, diskId, MIB, TestFleet } from "../../testing/fleet-fixture.js";
import { completeErase } from "../devices/erase.js";
import { labelDue } from "../store/label-due.js";
import type { Device } from "../store/schema.js";
import { beginLabel, completeLabel } from "./label-orders.js";
import { mustBeErased } from "./removal-erase.js";

const LABEL = { labelId: "a".repeat(32) };
const sliced = ({ runs = [], ...fields }: DeviceFields = {}): Device => ({
  ...aDevice("d1", { sliceBytes: MIB, labelState: "NONE", ...fields }),
  runs,
});
const ofDisk = { first: 0, count: 2, diskId: diskId("a") };
const dirty = { first: 4, count: 2, diskId: "" as const };
const leaving = { removalRequested: true, label: LABEL, labelState: "VALID" as const };

const rows: readonly (readonly [what: string, fields: DeviceFields, due: string | undefined])[] = [
  ["a free device with slices", {}, "write"],
  ["disks and dirty runs on slices", { runs: [ofDisk, dirty] }, "write"],
  ["a label that is recorded", { label: LABEL, labelState: "VALID" }, undefined],
  ["a damaged label that is not recorded", { labelState: "DAMAGED" }, "write"],
  ["no slices", { sliceBytes: undefined }, undefined],
  ["a disk of 0.1.0, on all bytes", { runs: [{ first: 0, diskId: diskId("a") }] }, undefined],
  ["all bytes to be erased", { runs: [{ first: 0, diskId: "" }] }, undefined],
  ["an agent that reads no labels", { labelState: undefined }, undefined],
  ["bytes of a disk in the label's place, where none is", { labelState: "USERS" }, "write"],
  ["such bytes in place of a recorded label", { label: LABEL, labelState: "USERS" }, "write"],
  [
    "a disk of 0.1.0 in the label's place",
    { labelState: "USERS", runs: [{ first: 0, diskId: diskId("a") }] },
    undefined,
  ],
  ["a label of others", { labelState: "VALID", foundLabel: { ...LABEL, deviceId: deviceId("x") } }, undefined],
  ["an attach that is not confirmed", { attachState: "ATTACHING" }, undefined],
  ["a device in ERROR", { health: "ERROR" }, undefined],
  ["an unknown disk", { unknownSession: { sessionNumber: 9, diskId: "" } }, undefined],
  ["a removal of a free device", leaving, "remove"],
  ["a removal while something is there", { ...leaving, runs: [dirty] }, undefined],
  ["a removal with keep_data", { ...leaving, keepData: true }, undefined],
  ["a removal without a label", { removalRequested: true }, undefined],
];

describe("orders about labels", () => {
  for (const [what, fields, due] of rows)
    it(`${what} -> ${due ?? "none"}`, () => {
      expect(labelDue(sliced(fields))).to.equal(due);
    });

  const begun = (fields: DeviceFields = {}) => {
    const fleet = new TestFleet({ devices: [sliced(fields)] });
    const order = fleet.transact((tx) => beginLabel(tx, deviceId("d1")));
    if (order === undefined) throw new Error("no order is due");
    const complete = () => fleet.transact((tx) => completeLabel(tx, order, LABEL.labelId));
    const change = (changed: Partial<Device>) =>
      fleet.transact((tx) => tx.devices.put({ ...fleet.device("d1"), ...changed }));
    return { fleet, order, complete, change };
  };

  it("have a session of their own each, and the bytes before the first slice", () => {
    const { fleet, order } = begun();
    expect(order).to.include({ kind: "write", sessionNumber: 201, sizeBytes: 65_536 });
    expect(fleet.device("d1").lastSessionNumber).to.equal(201);
    expect(fleet.transact((tx) => beginLabel(tx, deviceId("d1")))?.sessionNumber).to.equal(202);
    expect(begun({ sizeBytes: 1024 * MIB, sliceBytes: 64 * MIB }).order.sizeBytes).to.equal(MIB);
  });

  it("record the label once it is written, and forget it once it is removed", () => {
    const written = begun({ formerLabelId: "b".repeat(32) });
    written.complete();
    expect(written.fleet.device("d1")).to.deep.include({ label: LABEL, labelState: "VALID" });
    expect(written.fleet.device("d1").formerLabelId).to.equal(undefined);
    const removed = begun(leaving);
    expect(mustBeErased(removed.fleet.device("d1"))).to.equal(true);
    removed.complete();
    expect(removed.fleet.device("d1").label).to.equal(undefined);
    expect(mustBeErased(removed.fleet.device("d1"))).to.equal(false);
  });

  it("record a label that was written when the removal was asked for, so that it is removed", () => {
    const { fleet, complete, change } = begun();
    change({ removalRequested: true });
    complete();
    expect(labelDue(fleet.device("d1"))).to.equal("remove");
  });

  const changes: readonly (readonly [string, Partial<Device>])[] = [
    ["attached anew", { generation: 2 }],
    ["divided anew", { sliceBytes: 2 * MIB }],
    ["distrusted, so that all is erased", { runs: [{ first: 0, diskId: "" }] }],
  ];
  for (const [what, change] of changes)
    it(`record nothing of a device that was ${what} meanwhile`, () => {
      const { fleet, complete, ...order } = begun();
      order.change(change);
      complete();
      expect(fleet.device("d1").label).to.equal(undefined);
    });

  it("record nothing that a former start of the agent answers", () => {
    const { fleet, complete } = begun();
    fleet.transact((tx) => tx.hosts.put(aHost("h1", { bootId: "h1-boot-2" })));
    complete();
    expect(fleet.device("d1").label).to.equal(undefined);
  });

  it("go to no host that gets no orders", () => {
    const fleet = new TestFleet({ hosts: [aHost("h1", { mustRegister: true })], devices: [sliced()] });
    expect(fleet.transact((tx) => beginLabel(tx, deviceId("d1")))).to.equal(undefined);
  });

  it("an erase of all bytes erases the label, and one of slices does not", () => {
    for (const [run, label] of [
      [{ first: 0, diskId: "" as const, eraseSessionNumber: 7 }, undefined],
      [{ ...dirty, eraseSessionNumber: 7 }, LABEL],
    ] as const) {
      const fleet = new TestFleet({ devices: [sliced({ label: LABEL, labelState: "VALID", runs: [run] })] });
      fleet.transact((tx) => completeErase(tx, deviceId("d1"), 7));
      expect(fleet.device("d1").label).to.deep.equal(label);
    }
  });
});
