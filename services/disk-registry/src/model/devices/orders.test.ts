import { expect } from "chai";
import { aDevice, aHost, type DeviceFields, diskId, hostId, leader, TestFleet } from "../../testing/fleet-fixture.js";
import { addHost } from "../hosts/add-action.js";
import type { Device } from "../store/schema.js";
import {
  applyOutcomes,
  type DeviceOutcome,
  type OrderKind,
  type OutcomeCode,
  planOrders,
  recordOrderFailure,
} from "./orders.js";

const h1 = hostId("h1");
const all = { maxDevices: 1000, isDue: () => true };
const NOW_MS = 1_000;

function answer(id: string, code: OutcomeCode, generation: number, tablet = leader): DeviceOutcome {
  return { deviceId: id, code, message: "said so", stamp: { ...tablet, deviceGeneration: generation } };
}

interface Row {
  readonly cause: string;
  readonly device: DeviceFields;
  readonly kind: OrderKind;
  readonly outcome: DeviceOutcome | undefined;
  /** null means that the device is gone. */
  readonly effect: DeviceFields | null;
  readonly confirmed: boolean;
}

const attaching = { attachState: "ATTACHING", generation: 5 } as const;
const closing = { attachState: "CLOSING", generation: 5 } as const;

const rows: readonly Row[] = [
  {
    cause: "attach DONE",
    device: { ...attaching, attempts: 2, lastError: "x" },
    kind: "attach",
    outcome: answer("d1", "DONE", 5),
    confirmed: true,
    effect: { attachState: "ATTACHED", attempts: 0, lastError: "", generation: 5 },
  },
  {
    cause: "attach ALREADY",
    device: attaching,
    kind: "attach",
    outcome: answer("d1", "ALREADY", 5),
    confirmed: true,
    effect: { attachState: "ATTACHED" },
  },
  {
    cause: "attach PENDING",
    device: attaching,
    kind: "attach",
    outcome: answer("d1", "PENDING", 5),
    confirmed: false,
    effect: { attachState: "ATTACHING", attempts: 0, lastError: "" },
  },
  {
    cause: "attach IO_ERROR",
    device: attaching,
    kind: "attach",
    outcome: answer("d1", "IO_ERROR", 5),
    confirmed: false,
    effect: { attachState: "ATTACHING", attempts: 1, lastError: "IO_ERROR: said so" },
  },
  {
    cause: "attach IO_ERROR, at length",
    device: attaching,
    kind: "attach",
    outcome: { ...answer("d1", "IO_ERROR", 5), message: "x".repeat(100_000) },
    confirmed: false,
    effect: { attachState: "ATTACHING", attempts: 1, lastError: `IO_ERROR: ${"x".repeat(2_038)}` },
  },
  {
    cause: "attach OUTDATED",
    device: attaching,
    kind: "attach",
    outcome: answer("d1", "OUTDATED", 5),
    confirmed: false,
    effect: { attachState: "ATTACHING", attempts: 1, lastError: "OUTDATED: said so" },
  },
  {
    cause: "attach DEVICE_CHANGED",
    device: attaching,
    kind: "attach",
    outcome: answer("d1", "DEVICE_CHANGED", 5),
    confirmed: false,
    effect: { attachState: "ATTACHING", attempts: 1 },
  },
  {
    cause: "attach UNKNOWN_DEVICE",
    device: attaching,
    kind: "attach",
    outcome: answer("d1", "UNKNOWN_DEVICE", 5),
    confirmed: false,
    effect: { attachState: "ATTACHING", attempts: 1 },
  },
  {
    cause: "attach not named in the answer",
    device: attaching,
    kind: "attach",
    outcome: undefined,
    confirmed: false,
    effect: { attachState: "ATTACHING", attempts: 1 },
  },
  {
    cause: "attach answered with another generation",
    device: attaching,
    kind: "attach",
    outcome: answer("d1", "DONE", 4),
    confirmed: false,
    effect: { attachState: "ATTACHING", attempts: 1 },
  },
  {
    cause: "attach answered with another tablet generation",
    device: attaching,
    kind: "attach",
    outcome: answer("d1", "DONE", 5, { ...leader, tabletGeneration: 6 }),
    confirmed: false,
    effect: { attachState: "ATTACHING" },
  },
  {
    cause: "attach answered with another tablet",
    device: attaching,
    kind: "attach",
    outcome: answer("d1", "DONE", 5, { ...leader, tabletId: "other" }),
    confirmed: false,
    effect: { attachState: "ATTACHING" },
  },
  {
    cause: "attach answered without a stamp",
    device: attaching,
    kind: "attach",
    outcome: { ...answer("d1", "DONE", 5), stamp: undefined },
    confirmed: false,
    effect: { attachState: "ATTACHING" },
  },
  {
    cause: "attach confirmed twice",
    device: { attachState: "ATTACHED", generation: 5 },
    kind: "attach",
    outcome: answer("d1", "ALREADY", 5),
    confirmed: true,
    effect: { attachState: "ATTACHED", generation: 5 },
  },
  {
    cause: "detach DONE",
    device: closing,
    kind: "detach",
    outcome: answer("d1", "DONE", 5),
    confirmed: true,
    effect: { attachState: "DETACHED", detachConfirmed: true, generation: 5 },
  },
  {
    cause: "detach of an unknown device",
    device: closing,
    kind: "detach",
    outcome: answer("d1", "UNKNOWN_DEVICE", 5),
    confirmed: true,
    effect: { attachState: "DETACHED", detachConfirmed: true },
  },
  {
    cause: "detach where another device is in its place",
    device: closing,
    kind: "detach",
    outcome: answer("d1", "DEVICE_CHANGED", 5),
    confirmed: true,
    effect: { attachState: "DETACHED", detachConfirmed: true },
  },
  {
    cause: "detach PENDING",
    device: closing,
    kind: "detach",
    outcome: answer("d1", "PENDING", 5),
    confirmed: false,
    effect: { attachState: "CLOSING", attempts: 0 },
  },
  {
    cause: "detach IO_ERROR",
    device: closing,
    kind: "detach",
    outcome: answer("d1", "IO_ERROR", 5),
    confirmed: false,
    effect: { attachState: "CLOSING", attempts: 1, lastError: "IO_ERROR: said so" },
  },
  {
    cause: "detach of an earlier generation",
    device: closing,
    kind: "detach",
    outcome: answer("d1", "DONE", 4),
    confirmed: false,
    effect: { attachState: "CLOSING" },
  },
  {
    cause: "detach of an UNKNOWN device",
    device: { attachState: "UNKNOWN", generation: 5 },
    kind: "detach",
    outcome: answer("d1", "DONE", 5),
    confirmed: true,
    effect: { attachState: "UNKNOWN", detachConfirmed: true },
  },
  {
    cause: "detach of an UNKNOWN device that the agent has no more",
    device: { attachState: "UNKNOWN", generation: 5 },
    kind: "detach",
    outcome: answer("d1", "UNKNOWN_DEVICE", 5),
    confirmed: true,
    effect: null,
  },
  {
    cause: "detach of a DETACHED device that nobody had confirmed",
    device: { attachState: "DETACHED", generation: 5 },
    kind: "detach",
    outcome: answer("d1", "ALREADY", 5),
    confirmed: true,
    effect: { attachState: "DETACHED", detachConfirmed: true },
  },
];

describe("orders", () => {
  for (const row of rows) {
    const effect =
      row.effect === null ? "forgotten" : `${row.effect.attachState}${row.confirmed ? "" : ", to be tried again"}`;
    it(`${row.cause} -> ${effect}`, () => {
      const device = aDevice("d1", row.device);
      const fleet = new TestFleet({ devices: [device] });
      const outcomes = row.outcome === undefined ? [] : [row.outcome];
      const settled = fleet.transact((tx) => applyOutcomes(tx, row.kind, [device], outcomes, leader, NOW_MS));
      expect(settled.confirmed).to.deep.equal(row.confirmed ? ["d1"] : []);
      expect(settled.unsettled).to.deep.equal(row.confirmed ? [] : ["d1"]);
      if (row.effect === null) expect(fleet.tables.devices.has("d1")).to.equal(false);
      else expect(fleet.device("d1")).to.deep.include(row.effect);
    });
  }

  it("an answer after a newer action changes nothing, for attach and detach", () => {
    const sent = aDevice("d1", attaching);
    const removed = aDevice("d1", { attachState: "CLOSING", generation: 6 });
    const fleet = new TestFleet({ devices: [removed] });
    const stale = [answer("d1", "DONE", 5)];
    fleet.transact((tx) => applyOutcomes(tx, "attach", [sent], stale, leader, NOW_MS));
    expect(fleet.device("d1")).to.deep.equal(removed);
    fleet.transact((tx) => recordOrderFailure(tx, [sent], "late", NOW_MS));
    expect(fleet.device("d1")).to.deep.equal(removed);
    const addedAgain = aDevice("d1", { attachState: "ATTACHING", generation: 7 });
    const again = new TestFleet({ devices: [addedAgain] });
    again.transact((tx) => applyOutcomes(tx, "detach", [removed], [answer("d1", "DONE", 6)], leader, NOW_MS));
    expect(again.device("d1")).to.deep.equal(addedAgain);
  });

  it("an attach that fails with IO_ERROR on the bytes of a device in operation is refused and not retried", () => {
    const onFile = { fileIdentity: "boot file 1", serialNumber: "" };
    const holder = aDevice("d2", { ...onFile, attachState: "ATTACHED" });
    const failed = [answer("d1", "IO_ERROR", 5)];
    for (const [disk, attachState] of [
      ["", "CLOSING"],
      [diskId("disk-1"), "ATTACHING"],
    ] as const) {
      const device = aDevice("d1", { ...attaching, ...onFile, diskId: disk });
      const fleet = new TestFleet({ devices: [device, holder] });
      const settled = fleet.transact((tx) => applyOutcomes(tx, "attach", [device], failed, leader, NOW_MS));
      expect(settled.unsettled, "an order follows, or another try").to.deep.equal(["d1"]);
      expect(fleet.device("d1").attachState).to.equal(attachState);
      expect(fleet.device("d2")).to.deep.equal(holder);
    }
  });

  it("an unanswered order keeps its attempts and error, and changes no state", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1", attaching), aDevice("d2", closing)] });
    fleet.transact((tx) => recordOrderFailure(tx, [fleet.device("d1"), fleet.device("d2")], "unreachable", NOW_MS));
    expect(fleet.device("d1")).to.include({ attachState: "ATTACHING", attempts: 1, lastError: "unreachable" });
    expect(fleet.device("d2")).to.include({ attachState: "CLOSING", attempts: 1, lastError: "unreachable" });
  });

  it("AddHost of 256 devices gives one order with all of them, each with its own generation", () => {
    const devices = Array.from({ length: 256 }, (_, i) => aDevice(`d${i}`, { attachState: "UNKNOWN" }));
    const fleet = new TestFleet({ devices });
    fleet.transact((tx) => addHost(tx, h1, { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 }));
    const orders = planOrders(fleet.tables, h1, all);
    expect(orders?.attach.length).to.equal(256);
    expect(orders?.detach.length).to.equal(0);
    expect(new Set(orders?.attach.map((device) => device.generation)).size).to.equal(256);
  });

  it("an order contains the devices that await one, are due, and fit", () => {
    const devices = [
      aDevice("attached"),
      aDevice("attaching", attaching),
      aDevice("closing", closing),
      aDevice("detached", { attachState: "DETACHED", detachConfirmed: true }),
      aDevice("maybe-held", { attachState: "DETACHED" }),
      aDevice("not-due", attaching),
      aDevice("unknown", { attachState: "UNKNOWN", detachConfirmed: true }),
      aDevice("unknown-held", { attachState: "UNKNOWN" }),
    ];
    const fleet = new TestFleet({ devices });
    const options = { maxDevices: 10, isDue: (device: Device) => device.deviceId !== "not-due" };
    const orders = planOrders(fleet.tables, h1, options);
    expect(orders?.attach.map((device) => device.deviceId)).to.deep.equal(["attaching"]);
    expect(orders?.detach.map((device) => device.deviceId)).to.deep.equal(["closing", "maybe-held", "unknown-held"]);
    const few = planOrders(fleet.tables, h1, { ...options, maxDevices: 2 });
    expect((few?.attach.length ?? 0) + (few?.detach.length ?? 0)).to.equal(2);
  });

  it("an UNAVAILABLE or unknown host gets no order", () => {
    const fleet = new TestFleet({
      hosts: [aHost("h1", { state: "UNAVAILABLE" })],
      devices: [aDevice("d1", attaching)],
    });
    expect(planOrders(fleet.tables, h1, all)).to.equal(undefined);
    expect(planOrders(fleet.tables, hostId("h2"), all)).to.equal(undefined);
  });
});
