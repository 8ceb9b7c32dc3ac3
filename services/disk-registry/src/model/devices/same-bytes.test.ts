import { InvalidStateError } from "@diskmesh/domain";
import { expect } from "chai";
import {
  aDevice,
  aHost,
  type DeviceFields,
  deviceId,
  diskId,
  hostId,
  leader,
  MIB,
  remembered,
  TestFleet,
} from "../../testing/fleet-fixture.js";
import { addDevice, addHost } from "../hosts/add-action.js";
import { type Registration, registerAgent } from "../hosts/registration.js";
import { applyOutcomes } from "./orders.js";
import { NO_SHARED_SERIAL_NUMBERS, sharersIn, whyRefused } from "./same-bytes.js";

const NOW_MS = 50_000;
const FILE = "boot-1 file 8:1:99:0";

type Fields = DeviceFields;

/** Returns a device in operation, and a device of host h2 that was not added. */
function pair(first: Fields, second: Fields): TestFleet {
  return new TestFleet({
    hosts: [aHost("h1"), aHost("h2")],
    devices: [
      aDevice("a", { serialNumber: "", generation: 5, ...first }),
      aDevice("b", { serialNumber: "", generation: 9, hostId: hostId("h2"), attachState: "UNKNOWN", ...second }),
    ],
  });
}

const onFile = { fileIdentity: FILE };
const h1 = { hostId: hostId("h1") };
const half = { sizeBytes: 32 * MIB };
const secondHalf = { offsetBytes: 32 * MIB, sizeBytes: 32 * MIB };
const wwn = { serialNumber: "naa.5000c500a1b2c3d4" };

const place = { path: "/dev/b", offsetBytes: 0, sizeBytes: 64 * MIB, blockSizeBytes: 4096 };

const rows: readonly [string, Fields, Fields, "refused" | "taken in"][] = [
  ["one file, overlapping ranges, one host", onFile, { ...onFile, ...h1 }, "refused"],
  ["one file, disjoint ranges, one host", { ...onFile, ...half }, { ...onFile, ...secondHalf, ...h1 }, "taken in"],
  ["one file, disjoint ranges, two hosts", { ...onFile, ...half }, { ...onFile, ...secondHalf }, "refused"],
  ["one file, of unknown length", onFile, { ...onFile, ...h1, sizeBytes: 0 }, "refused"],
  ["files of two boots with equal numbers", onFile, { fileIdentity: FILE.replace("boot-1", "boot-2") }, "taken in"],
  ["files that nobody told of", { fileIdentity: "" }, { fileIdentity: "" }, "taken in"],
  ["one serial number on two hosts", wwn, wwn, "refused"],
  ["one serial number on one host, as of an NVMe drive's namespaces", wwn, { ...wwn, ...h1 }, "taken in"],
  ["two serial numbers", wwn, { serialNumber: "naa.5000c500a1b2c3d5" }, "taken in"],
  ["no serial numbers", { serialNumber: "" }, { serialNumber: "" }, "taken in"],
  ["what QEMU gives by default", { serialNumber: "QM00001" }, { serialNumber: "QM00001" }, "taken in"],
  ["zeros", { serialNumber: "00000000" }, { serialNumber: "00000000" }, "taken in"],
  [
    "the same partition of what QEMU gives",
    { serialNumber: "QM00001-part1" },
    { serialNumber: "QM00001-part1" },
    "taken in",
  ],
  ["the other ATTACHING", { ...wwn, attachState: "ATTACHING" }, wwn, "refused"],
  ["the other CLOSING", { ...wwn, attachState: "CLOSING" }, wwn, "refused"],
  ["the other DETACHED", { ...wwn, attachState: "DETACHED" }, wwn, "taken in"],
  ["the other UNKNOWN", { ...wwn, attachState: "UNKNOWN" }, wwn, "taken in"],
  ["the other gone from its host", { ...wwn, attachState: "ATTACHING", missing: true }, wwn, "taken in"],
  ["the other gone from its host, a disk on it", { ...wwn, missing: true, diskId: diskId("disk-1") }, wwn, "refused"],
  ["added again while it closes", wwn, { ...wwn, attachState: "CLOSING" }, "refused"],
  ["found in the place of another", wwn, { attachState: "ATTACHED", replacement: { ...place, ...wwn } }, "refused"],
];

describe("two devices on the same bytes", () => {
  for (const [cause, first, second, effect] of rows)
    it(`AddDevice: ${cause} -> ${effect}`, () => {
      const fleet = pair(first, second);
      const before = fleet.device("b");
      const add = () =>
        fleet.transact((tx) =>
          addDevice(tx, { deviceId: deviceId("b") }, { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 }),
        );
      if (effect === "taken in") {
        const result = add();
        expect(result.code, result.message).to.equal("S_OK");
        expect(fleet.device("b").attachState).to.equal("ATTACHING");
        return;
      }
      const why = /^not added: device b of host h[12] lies on the same bytes as device a of host h1, which /;
      expect(add).to.throw(InvalidStateError, why);
      expect(fleet.device("b")).to.deep.equal(before);
    });

  it("AddHost adds the other devices, and names the reason for each refused one", () => {
    const fleet = pair(wwn, wwn);
    fleet.transact((tx) => tx.devices.put(aDevice("c", { hostId: hostId("h2"), attachState: "UNKNOWN" })));
    const result = fleet.transact((tx) => addHost(tx, hostId("h2"), { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 }));
    expect(result.code).to.equal("S_PARTLY");
    expect(result.message).to.match(
      /host h2 is in operation with 1 of its 2 devices; .*device b of host h2 .*device a of/,
    );
    expect([fleet.device("b").attachState, fleet.device("c").attachState]).to.deep.equal(["UNKNOWN", "ATTACHING"]);
  });

  it("AddHost adds one of two devices of its host on the same bytes", () => {
    const fleet = pair({ ...onFile, attachState: "UNKNOWN" }, { ...onFile, ...h1 });
    const result = fleet.transact((tx) => addHost(tx, hostId("h1"), { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 }));
    expect(result.message).to.contain("device b of host h1 lies on the same bytes as device a of host h1");
    expect([fleet.device("a").attachState, fleet.device("b").attachState]).to.deep.equal(["ATTACHING", "UNKNOWN"]);
  });

  it("a serial number that an operator listed as shared refuses nothing", () => {
    const fleet = pair(wwn, wwn);
    const shared = new Set([wwn.serialNumber]);
    expect(
      fleet.transact((tx) =>
        addDevice(tx, { deviceId: deviceId("b") }, { nowMs: NOW_MS, waitingRetryAfterMs: 10_000, shared }),
      ).code,
    ).to.equal("S_OK");
  });

  const both = { ...wwn, attachState: "ATTACHED" } as const;
  const places: readonly [string, Fields, Fields, "a" | "b"][] = [
    ["the one ordered first", both, both, "a"],
    ["the one with a disk, though it was ordered later", both, { ...both, diskId: diskId("disk-1") }, "b"],
    ["the one that is ATTACHED", { ...both, attachState: "ATTACHING" }, both, "b"],
  ];
  for (const [who, first, second, winner] of places)
    for (const order of ["a b", "b a"])
      it(`both in operation, registered in the order ${order}: ${who} stays, the other is detached`, () => {
        const fleet = pair(first, second);
        for (const id of order.split(" ")) register(fleet, id);
        const [kept, refused] = winner === "a" ? ["a", "b"] : ["b", "a"];
        expect(fleet.device(kept).attachState).to.be.oneOf(["ATTACHED", "ATTACHING"]);
        expect(fleet.device(refused).attachState).to.equal("CLOSING");
        const { unknown, allowed } = register(fleet, refused);
        expect(allowed).to.deep.equal([]);
        expect(unknown[0]?.reason).to.contain(`same bytes as device ${kept} of host`);
        expect(unknown[0]?.stamp.deviceGeneration).to.equal(fleet.device(refused).generation);
      });

  const isClean: readonly [string, Fields, Fields, boolean][] = [
    ["another was on its bytes", { ...onFile, attachState: "DETACHED" }, onFile, false],
    ["another drive with its serial number was", { ...wwn, attachState: "DETACHED" }, wwn, false],
    [
      "others lie beside it",
      { ...onFile, ...half, attachState: "DETACHED" },
      { ...onFile, ...secondHalf, ...h1 },
      true,
    ],
  ];
  for (const [cause, first, second, stays] of isClean)
    it(`a clean device comes back into operation, and ${cause} -> ${stays ? "clean" : "dirty"}`, () => {
      const fleet = pair(first, { ...second, attachState: "DETACHED", dirty: false });
      fleet.transact((tx) =>
        addDevice(tx, { deviceId: deviceId("b") }, { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 }),
      );
      expect(fleet.seen("b")).to.include({ attachState: "ATTACHING", dirty: !stays });
    });

  it("a device whose shared bytes become known during its attach is detached instead of confirmed", () => {
    const fleet = pair(wwn, { ...wwn, attachState: "ATTACHING" });
    const b = fleet.device("b");
    const stamp = { ...leader, deviceGeneration: b.generation };
    const outcome = { deviceId: "b", code: "DONE", message: "", stamp } as const;
    fleet.transact((tx) => applyOutcomes(tx, "attach", [b], [outcome], leader, NOW_MS));
    expect(fleet.device("b")).to.include({ attachState: "CLOSING", generation: 101 });
  });

  it("two devices with disks stay as they are, and the later one shows the conflict", () => {
    const disks = [{ diskId: diskId("disk-1") }, { diskId: diskId("disk-2") }];
    const fleet = pair({ ...both, ...disks[0] }, { ...both, ...disks[1] });
    for (const id of ["a", "b"]) register(fleet, id);
    expect([fleet.device("a").attachState, fleet.device("b").attachState]).to.deep.equal(["ATTACHED", "ATTACHED"]);
    const reasons = ["a", "b"].map((id) =>
      whyRefused(sharersIn(fleet.tables, NO_SHARED_SERIAL_NUMBERS), fleet.device(id)),
    );
    expect(reasons[0]).to.equal(undefined);
    expect(reasons[1]).to.contain("holds disk disk-1");
  });

  it("a drive that moved to another host is refused while the former host reports it, and added afterwards", () => {
    const fleet = pair(both, wwn);
    const add = () =>
      fleet.transact((tx) => addDevice(tx, { deviceId: deviceId("b") }, { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 }))
        .code;
    expect(add).to.throw(InvalidStateError);
    fleet.transact((tx) => registerAgent(tx, { ...registration("a"), devices: [] }, leader, { maxHosts: 9 }, NOW_MS));
    expect(fleet.device("a")).to.include({ missing: true, health: "ERROR" });
    expect(add()).to.equal("S_OK");
    // The device returns to its former host. There it has the later claim, and its contents are unknown.
    register(fleet, "a");
    expect(fleet.seen("a")).to.include({ attachState: "CLOSING", dirty: true });
    expect([fleet.device("a").missing, fleet.device("b").attachState]).to.deep.equal([undefined, "ATTACHING"]);
    register(fleet, "b");
    expect(fleet.device("b").attachState).to.equal("ATTACHING");
  });

  function registration(id: string): Registration {
    const { path, offsetBytes, sizeBytes, blockSizeBytes, serialNumber, pool } = aDevice(id, wwn);
    const facts = { path, offsetBytes, sizeBytes, blockSizeBytes, serialNumber, pool };
    const held = { health: "ONLINE", healthMessage: "", attached: true, sessionNumber: 0, sessionDiskId: "" } as const;
    const { address, az, rack, bootId } = aHost(id === "a" ? "h1" : "h2");
    return {
      hostId: hostId(id === "a" ? "h1" : "h2"),
      ...{ address, az, rack, bootId },
      devices: [{ deviceId: deviceId(id), ...facts, ...held }],
      exports: [],
      remembered,
    };
  }

  function register(fleet: TestFleet, id: string) {
    return fleet.transact((tx) => registerAgent(tx, registration(id), leader, { maxHosts: 9 }, NOW_MS));
  }
});
