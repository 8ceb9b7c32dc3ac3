import { InvalidStateError } from "@diskmesh/domain";
import { expect } from "chai";
import {
  aDevice,
  aDisk,
  aHost,
  deletedNow,
  deviceId,
  diskId,
  type Fleet,
  hostId,
  TestFleet,
} from "../../testing/fleet-fixture.js";
import { NOW_MS, register, registration, reported } from "../../testing/registrations.js";
import { purgeDevice, purgeHost } from "../hosts/purge-action.js";
import type { Registration } from "../hosts/registration.js";
import type { Copy } from "../store/disk-parts.js";
import { withCopies } from "../store/layout.js";
import type { Publication, RegistryTransaction } from "../store/schema.js";

const published: Publication = {
  hostId: hostId("h1"),
  state: "PUBLISHED",
  sessionNumber: 150,
  exportPath: "/x",
  attempts: 0,
  lastError: "",
};
const elsewhere: Publication = { ...published, hostId: hostId("h2") };

/** Returns a fleet with disk x on device d1 of h1, with the given publication. */
function publishedFleet(publication: Publication, copy: Partial<Copy> = {}): Fleet {
  const disk = withCopies(aDisk("x", ["d1"], { publication }), (each) => ({ ...each, ...copy }));
  return {
    hosts: [aHost("h1"), aHost("h2")],
    devices: [aDevice("d1", { diskId: diskId("x") })],
    disks: [disk],
  };
}

const x150 = { diskId: diskId("x"), sessionNumber: 150 };
const serving = { exports: [x150] };
const granted = { sessionNumber: 150 };

describe("publications at registration", () => {
  const own = { sessionNumber: 160 };
  const cases: readonly [string, Publication, Registration, string, Partial<Copy>?][] = [
    ["the same start, serving", published, registration([reported("d1", granted)], serving), "PUBLISHED 150"],
    ["the same start, not serving", published, registration([reported("d1", granted)]), "PUBLISHING 201"],
    [
      "the same start, serving an older session",
      published,
      registration([reported("d1", granted)], { exports: [{ diskId: diskId("x"), sessionNumber: 149 }] }),
      "PUBLISHING 201",
    ],
    [
      "a new start",
      published,
      registration([reported("d1", granted)], { ...serving, bootId: "boot-2" }),
      "PUBLISHING 201",
    ],
    [
      "a new start during which the export went on",
      published,
      registration([reported("d1", granted)], { exports: [{ ...x150, wentOn: true }], bootId: "boot-2" }),
      "PUBLISHED 150",
    ],
    [
      "a new start during which the export of an older session went on",
      published,
      registration([reported("d1", granted)], {
        exports: [{ ...x150, sessionNumber: 149, wentOn: true }],
        bootId: "boot-2",
      }),
      "PUBLISHING 201",
    ],
    [
      "being published already",
      { ...published, state: "PUBLISHING" },
      registration([reported("d1")], { bootId: "boot-2" }),
      "PUBLISHING 150",
    ],
    [
      "being unpublished",
      { ...published, state: "UNPUBLISHING" },
      registration([reported("d1")], { bootId: "boot-2" }),
      "UNPUBLISHING 150",
    ],
    [
      "a device's host that remembers the session",
      elsewhere,
      registration([reported("d1", granted)], { bootId: "boot-2" }),
      "PUBLISHED 150",
    ],
    [
      "a device's host at another address",
      elsewhere,
      registration([reported("d1", granted)], { address: "127.0.0.1:9" }),
      "PUBLISHING 201",
    ],
    [
      "a device's host that lost its cache",
      elsewhere,
      registration([reported("d1")], { bootId: "boot-2" }),
      "PUBLISHING 201",
    ],
    [
      "the host of an added device, in the session of its own",
      elsewhere,
      registration([reported("d1", own)], { bootId: "boot-2" }),
      "PUBLISHED 150",
      own,
    ],
    [
      "the host of an added device, without that session",
      elsewhere,
      registration([reported("d1", granted)], { bootId: "boot-2" }),
      "PUBLISHING 201",
      own,
    ],
    [
      "the host of a device that is being added, without its session yet",
      { ...elsewhere, revision: 1 },
      registration([reported("d1", granted)], { bootId: "boot-2" }),
      "PUBLISHED 150",
      own,
    ],
  ];
  for (const [cause, publication, from, effect, copy] of cases) {
    it(`${cause} -> ${effect}`, () => {
      const fleet = new TestFleet(publishedFleet(publication, copy));
      register(fleet, from);
      const after = fleet.disk("x").publication;
      expect(`${after?.state} ${after?.sessionNumber}`).to.equal(effect);
    });
  }

  for (const [cause, sessionNumber, effect] of [
    ["with an older session than the disk's last", 100, "UNPUBLISHING 201"],
    ["with the disk's last", 150, "none"],
  ] as const)
    it(`a device that counted as fenced while gone is back, ${cause} -> ${effect}`, () => {
      const disk = aDisk("x", ["d1"], { lastSessionNumber: 150 });
      const device = aDevice("d1", { diskId: diskId("x"), missing: true, attachState: "ATTACHING" });
      const fleet = new TestFleet({ devices: [device], disks: [disk] });
      register(fleet, registration([reported("d1", { sessionNumber, sessionDiskId: diskId("x") })]));
      const after = fleet.disk("x").publication;
      expect(after === undefined ? "none" : `${after.state} ${after.sessionNumber}`).to.equal(effect);
    });

  it("ids of other hosts' devices are refused, and shown until they are gone", () => {
    const fleet = new TestFleet({
      hosts: [aHost("h1"), aHost("h2")],
      devices: [aDevice("d9", { hostId: hostId("h2") })],
    });
    const { unknown } = register(fleet, registration([reported("d9")]));
    expect(unknown.map((device) => device.deviceId)).to.deep.equal(["d9"]);
    expect(fleet.host("h1").foreignDevices).to.deep.equal([{ deviceId: "d9", hostId: "h2" }]);
    register(fleet, registration([]));
    expect(fleet.host("h1").foreignDevices).to.equal(undefined);
  });

  const forgets: [string, (tx: RegistryTransaction) => unknown][] = [
    [
      "the device is purged",
      (tx) => purgeDevice(tx, { deviceId: deviceId("d9"), hostId: hostId("h2") }, false, NOW_MS),
    ],
    ["its host is purged", (tx) => purgeHost(tx, hostId("h2"), false)],
  ];
  for (const [cause, forget] of forgets)
    it(`ids of other hosts' devices, and ${cause}: the host registers again, and has the device`, () => {
      const fleet = new TestFleet({
        hosts: [aHost("h1"), aHost("h2", { state: "UNAVAILABLE" }), aHost("h3")],
        devices: [aDevice("d8", { hostId: hostId("h2") }), aDevice("d9", { hostId: hostId("h2") })],
      });
      register(fleet, registration([reported("d9")]));
      fleet.transact((tx) => purgeDevice(tx, { deviceId: deviceId("d8"), hostId: hostId("h2") }, false, NOW_MS));
      expect(fleet.host("h1").mustRegister, "another device").to.equal(undefined);
      fleet.transact(forget);
      expect(fleet.host("h1").mustRegister).to.equal(true);
      expect(fleet.host("h3").mustRegister).to.equal(undefined);
      register(fleet, registration([reported("d9")]));
      expect(fleet.host("h1")).not.to.have.any.keys("mustRegister", "foreignDevices");
      expect(fleet.device("d9").hostId).to.equal("h1");
    });

  it("another az is refused with disks on the host's devices, which are named, and accepted without", () => {
    const fleet = new TestFleet({
      hosts: [aHost("h1")],
      devices: [aDevice("d1", { diskId: diskId("x") })],
      disks: [aDisk("x", ["d1"])],
    });
    const moved = { ...registration([reported("d1")]), az: "z2" };
    expect(() => register(fleet, moved)).to.throw(InvalidStateError, /in az z1, not in z2, while disks .* \(x\)/);
    expect(fleet.host("h1").az).to.equal("z1");
    fleet.transact((tx) => deletedNow(tx, diskId("x")));
    register(fleet, moved);
    expect(fleet.host("h1").az).to.equal("z2");
  });

  it("exports that are not wanted are named, to be ended", () => {
    const fleet = new TestFleet(publishedFleet(elsewhere));
    const exports = [
      { diskId: diskId("x"), sessionNumber: 100 },
      { diskId: diskId("gone"), sessionNumber: 90 },
    ];
    const answer = register(fleet, registration([reported("d1", granted)], { exports }));
    expect(answer.strayExports).to.deep.equal(exports);
    // The flag lets the next leader end the exports, in case this leader stops before it does.
    expect(fleet.host("h1").servesUnwanted).to.equal(true);
    register(fleet, registration([reported("d1", granted)], { exports: [] }));
    expect(fleet.host("h1").servesUnwanted).to.equal(undefined);
    expect(
      register(new TestFleet(publishedFleet(published)), registration([reported("d1", granted)], serving)).strayExports,
    ).to.deep.equal([]);
  });
});
