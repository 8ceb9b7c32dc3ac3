import { expect } from "chai";
import {
  type ActionRow,
  attached,
  dirty,
  h1,
  held,
  limits,
  NOW_MS,
  onShared,
  publishedTo,
  removalCall,
  silentSince,
  testActions,
  unknown,
} from "../../testing/cms-actions.js";
import { aDisk, aHost, deviceId, hostId, TestFleet } from "../../testing/fleet-fixture.js";
import { sayOfHosts } from "./host-words.js";
import { noteLostDisks } from "./lost-disks.js";
import { giveUpOnHost } from "./removal-timeout.js";

const counts = (id: string) => ({ deviceId: deviceId(id), state: "COUNTS" }) as const;

const rows: readonly ActionRow[] = [
  {
    cause: "RemoveHost of an UNAVAILABLE host with a disk: when it counts as lost, first after the usual time",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says:
      "holds 1 disk (host h1 is UNAVAILABLE; unreadable data counts as lost in 3600 s): " +
      "x (PUBLISHED to h2 for the host itself, ERROR: device d1 on host h1: its host is UNAVAILABLE; its move waits: its device d1 cannot be read",
    dependent: ["x"],
    retryAfterMs: 10_000,
    fleet: {
      hosts: [...silentSince(NOW_MS), aHost("h2")],
      devices: [held("d1", "x")],
      disks: [aDisk("x", ["d1"], { publication: publishedTo("h2", "PUBLISHED") })],
    },
  },
  {
    cause: "RemoveHost of a host that was UNAVAILABLE for the removal timeout names what is lost, and the ways out",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says:
      "holds 1 lost disk (host h1 is UNAVAILABLE, and nobody else has these bytes: start the host again, or accept the loss " +
      "by DeleteDisk, or by PurgeDevice or PurgeHost with force): x (2 of 3 parts, on d1, d2; PUBLISHED to h2); " +
      "it holds 1 disk (host h1 is UNAVAILABLE): y (PUBLISHED to h2 for the host itself, ONLINE; it has moved from device d5, which is left once host h2 confirms the new layout); " +
      "it serves 1 disk (take them from it with FenceHost): z (PUBLISHED to h1",
    dependent: ["x", "y", "z"],
    fleet: {
      hosts: [...silentSince(NOW_MS - 3_600_000), aHost("h2")],
      devices: [
        held("d1", "x"),
        held("d2", "x"),
        held("d3", "x", { hostId: hostId("h2") }),
        held("d4", "y", { hostId: hostId("h2") }),
        held("d5", "y"),
        held("d6", "z", { hostId: hostId("h2") }),
      ],
      disks: [
        aDisk("x", ["d1", "d2", "d3"], { publication: publishedTo("h2", "PUBLISHED") }),
        aDisk("y", ["d4"], {
          publication: publishedTo("h2", "PUBLISHED"),
          parts: [{ copies: [counts("d4"), { deviceId: deviceId("d5"), state: "LEAVING" }] }],
        }),
        aDisk("z", ["d6"], { publication: publishedTo("h1", "PUBLISHED") }),
      ],
    },
    devices: { d1: "ATTACHED 1 wish", d5: "ATTACHED 1 wish" },
  },
  {
    cause: "RemoveHost of a DEAD host whose only disk was deleted",
    action: "removeHost",
    code: "S_OK",
    says: "the close was not confirmed, so the host may still use: d1; not erased, so they still have their data: d1",
    unerased: ["d1"],
    fleet: { hosts: [aHost("h1", { state: "DEAD" })], devices: [attached("d1", dirty)] },
    devices: { d1: "DETACHED 101 dirty wish" },
  },
  ...[
    ["after 100 s -> 100 s", 100_000, 100_000],
    ["after an hour -> 5 min", 3_600_000, 300_000],
    ["after the clock was set back -> the usual time", -100_000, 10_000],
  ].map(
    ([when, ageMs, retryAfterMs]): ActionRow => ({
      cause: `RemoveDevice of a broken device with a disk, ${when}`,
      action: "removeD1",
      code: "E_TRY_AGAIN",
      says: "x (unpublished, ERROR: device d1 on host h1: EIO; its move waits for a target",
      dependent: ["x"],
      retryAfterMs: Number(retryAfterMs),
      fleet: {
        devices: [
          held("d1", "x", {
            health: "ERROR",
            healthMessage: "EIO",
            removalRequested: true,
            removalRequestedAtMs: NOW_MS - Number(ageMs),
          }),
        ],
        disks: [aDisk("x", ["d1"])],
      },
    }),
  ),
  {
    cause: "RemoveDevice of a device with a disk that is well, after an hour: the usual time",
    action: "removeD1",
    code: "E_TRY_AGAIN",
    says: "holds 1 disk (they move to other devices by themselves): x (unpublished, ONLINE; its move waits for a target",
    dependent: ["x"],
    retryAfterMs: 10_000,
    fleet: {
      devices: [held("d1", "x", { removalRequested: true, removalRequestedAtMs: NOW_MS - 3_600_000 })],
      disks: [aDisk("x", ["d1"])],
    },
  },
  {
    cause: "RemoveHost with free devices",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says: "2 devices are being closed",
    wish: true,
    fleet: {
      devices: [attached("d1"), attached("d2", { attachState: "ATTACHING" }), unknown("d3", { detachConfirmed: true })],
    },
    devices: { d1: "CLOSING 101 wish", d2: "CLOSING 102 wish", d3: "UNKNOWN 1 dirty" },
  },
  {
    cause: "RemoveHost with one disk left holds all its devices back",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    dependent: ["x"],
    wish: true,
    fleet: { devices: [held("d1", "x"), attached("d2")], disks: [aDisk("x", ["d1"])] },
    devices: { d1: "ATTACHED 1 wish", d2: "ATTACHED 1 wish" },
  },
  {
    cause: "RemoveHost asked again while disks are there says so again",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    dependent: ["x", "y"],
    fleet: {
      hosts: [aHost("h1", { removalRequested: true })],
      devices: [held("d1", "y", { removalRequested: true }), held("d2", "x", { removalRequested: true })],
    },
    devices: { d1: "ATTACHED 1 wish", d2: "ATTACHED 1 wish" },
  },
  {
    cause: "RemoveHost of a host that serves a disk of other hosts' devices holds all its own back",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says: 'serves 1 disk (detach them where they were attached): y named "scratch" (PUBLISHED to h1 for VM vm1, ONLINE)',
    dependent: ["y"],
    wish: true,
    fleet: {
      hosts: [aHost("h1"), aHost("h2")],
      devices: [attached("d1"), held("d2", "y", { hostId: hostId("h2") })],
      disks: [
        aDisk("y", ["d2"], {
          publication: { ...publishedTo("h1", "PUBLISHED"), vmCid: "vm1" },
          labels: [{ name: "disk_name", value: "scratch" }],
        }),
      ],
    },
    devices: { d1: "ATTACHED 1 wish" },
  },
  {
    cause: "RemoveHost of a host that holds one disk, and may still serve another",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    dependent: ["x", "y"],
    fleet: {
      hosts: [aHost("h1"), aHost("h2")],
      devices: [held("d1", "x"), held("d2", "y", { hostId: hostId("h2") })],
      disks: [aDisk("x", ["d1"]), aDisk("y", ["d2"], { publication: publishedTo("h1", "UNPUBLISHING") })],
    },
    devices: { d1: "ATTACHED 1 wish" },
  },
  {
    cause: "RemoveHost of a host without devices that serves a disk",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says: "y (PUBLISHING to h1 for the host itself, ONLINE)",
    dependent: ["y"],
    fleet: {
      hosts: [aHost("h1"), aHost("h2")],
      devices: [held("d2", "y", { hostId: hostId("h2") })],
      disks: [aDisk("y", ["d2"], { publication: publishedTo("h1", "PUBLISHING") })],
    },
  },
  {
    cause: "RemoveHost of a host that is a VM",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says: "is VM vm-1 (delete it)",
    wish: true,
    fleet: { hosts: [aHost("h1", { assignment: { vmCid: "vm-1", assignedAtMs: 0 } })], devices: [attached("d1")] },
    devices: { d1: "ATTACHED 1 wish" },
  },
  {
    cause: "RemoveDevice of a free device, while its host serves another disk and is a VM",
    action: "removeD1",
    code: "E_TRY_AGAIN",
    says: "1 device is being closed",
    fleet: {
      hosts: [aHost("h1", { assignment: { vmCid: "vm-1", assignedAtMs: 0 } }), aHost("h2")],
      devices: [attached("d1"), held("d2", "y", { hostId: hostId("h2") })],
      disks: [aDisk("y", ["d2"], { publication: publishedTo("h1", "PUBLISHED") })],
    },
    devices: { d1: "CLOSING 101 wish" },
  },
  {
    cause: "RemoveHost while closing",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says: "last error, of device d1: EIO",
    fleet: { devices: [attached("d1", { attachState: "CLOSING", lastError: "EIO", removalRequested: true })] },
    devices: { d1: "CLOSING 1 wish" },
  },
  {
    cause: "RemoveHost once detached",
    action: "removeHost",
    code: "S_OK",
    says: "host h1 is out of operation",
    fleet: { devices: [attached("d1", { attachState: "DETACHED", detachConfirmed: true })] },
    devices: { d1: "DETACHED 1" },
  },
  {
    cause: "RemoveHost of devices that nobody confirmed",
    action: "removeHost",
    code: "S_OK",
    says: "the close was not confirmed, so the host may still use: d1",
    fleet: { devices: [attached("d1", { attachState: "DETACHED" })] },
  },
  {
    cause: "RemoveHost of an UNAVAILABLE host",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says: "host h1 is UNAVAILABLE and cannot confirm; it counts as removed in 3600 s",
    fleet: { hosts: silentSince(NOW_MS), devices: [attached("d1")] },
    devices: { d1: "CLOSING 101 wish" },
  },
  {
    cause: "RemoveDevice with a disk",
    action: "removeD1",
    code: "E_TRY_AGAIN",
    dependent: ["x"],
    fleet: { devices: [held("d1", "x"), attached("d2")] },
    devices: { d1: "ATTACHED 1 wish", d2: "ATTACHED 1" },
  },
  {
    cause: "RemoveDevice by path: one disk on it holds all back",
    action: "removePath",
    code: "E_TRY_AGAIN",
    dependent: ["x"],
    fleet: { devices: [held("d1", "x", onShared), attached("d2", onShared)] },
    devices: { d1: "ATTACHED 1 wish", d2: "ATTACHED 1 wish" },
  },
  {
    cause: "RemoveDevice by path, free: all of them together",
    action: "removePath",
    code: "E_TRY_AGAIN",
    fleet: { devices: [attached("d1", onShared), attached("d2", onShared)] },
    devices: { d1: "CLOSING 101 wish", d2: "CLOSING 102 wish" },
  },
  {
    cause: "RemoveDevice of an UNKNOWN device that its agent holds no more",
    action: "removeD1",
    code: "S_OK",
    says: "not erased, so they still have their data: d1",
    unerased: ["d1"],
    fleet: { devices: [unknown("d1", { detachConfirmed: true })] },
    devices: { d1: "UNKNOWN 1 dirty" },
  },
  {
    cause: "RemoveHost of an UNKNOWN device that its agent may still hold",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says: "1 device is being closed by the agent",
    fleet: { devices: [attached("d1", { attachState: "DETACHED", detachConfirmed: true }), unknown("d2")] },
    devices: { d1: "DETACHED 1", d2: "UNKNOWN 1 dirty" },
  },
  {
    cause: "RemoveDevice of an UNKNOWN device whose host has been silent for less than the removal timeout",
    action: "removeD1",
    code: "E_TRY_AGAIN",
    says: "host h1 is UNAVAILABLE and cannot confirm",
    fleet: { hosts: silentSince(NOW_MS), devices: [unknown("d1")] },
    devices: { d1: "UNKNOWN 1 dirty" },
  },
  {
    cause: "RemoveDevice of an UNKNOWN device whose host is lost",
    action: "removeD1",
    code: "S_OK",
    says: "the close was not confirmed, so the host may still use: d1",
    unerased: ["d1"],
    fleet: { hosts: silentSince(NOW_MS - 3_600_000), devices: [unknown("d1")] },
    devices: { d1: "UNKNOWN 1 dirty" },
  },
];

describe("CMS actions that remove", () => {
  testActions(rows);

  it("detach CLOSING devices, unconfirmed, once their host was UNAVAILABLE for the removal timeout", () => {
    const devices = [
      attached("d1", { attachState: "CLOSING", generation: 9 }),
      attached("d2"),
      attached("d3", { attachState: "ATTACHING" }),
    ];
    const early = new TestFleet({ hosts: silentSince(NOW_MS - 3_599_999), devices });
    expect(early.transact((tx) => giveUpOnHost(tx, h1, limits, removalCall(false)))).to.equal(0);
    const late = new TestFleet({ hosts: silentSince(NOW_MS - 3_600_000), devices });
    expect(late.transact((tx) => giveUpOnHost(tx, h1, limits, removalCall(false)))).to.equal(1);
    expect(late.device("d1")).to.include({ attachState: "DETACHED", generation: 9, detachConfirmed: false });
    expect(late.device("d2").attachState).to.equal("ATTACHED");
    expect(late.device("d3").attachState).to.equal("ATTACHING");
    const online = new TestFleet({ hosts: [aHost("h1")], devices });
    expect(online.transact((tx) => giveUpOnHost(tx, h1, limits, removalCall(false)))).to.equal(0);
  });

  it("name the disks that a dead host's removal has lost once, until the host was heard or is kept", () => {
    const scene = { devices: [held("d1", "x"), attached("d2")], disks: [aDisk("x", ["d1"])] };
    const fleet = new TestFleet({ hosts: [aHost("h1", { state: "DEAD", removalRequested: true })], ...scene });
    const note = () => fleet.transact((tx) => noteLostDisks(tx, h1));
    const event = note();
    expect(event).to.deep.include({ action: "DisksLost", hostIds: ["h1"], deviceIds: ["d1"], diskIds: ["x"] });
    expect(event?.message).to.contain("x (1 of 1 parts, on d1; unpublished)");
    expect(note(), "again").to.equal(undefined);
    const back = { by: "ada", atMs: 1, reason: "" };
    fleet.transact((tx) => sayOfHosts(tx, [h1], "back", back));
    fleet.transact((tx) => sayOfHosts(tx, [h1], "dead", back));
    expect(note()?.diskIds, "after the host was alive").to.deep.equal(["x"]);
    const kept = new TestFleet({ hosts: [aHost("h1", { state: "DEAD" })], ...scene });
    expect(
      kept.transact((tx) => noteLostDisks(tx, h1)),
      "not to be removed",
    ).to.equal(undefined);
  });
});
