import { AbortedError, InvalidStateError, NotFoundError, UnavailableError } from "@diskmesh/domain";
import { expect } from "chai";
import {
  aDevice,
  aDisk,
  aHost,
  type DeviceFields,
  deletedNow,
  diskId,
  hostId,
  TestFleet,
} from "../../testing/fleet-fixture.js";
import type { Host, Publication } from "../store/schema.js";
import {
  completePublish,
  completeUnpublish,
  markAsked,
  publishProgress,
  recordPublicationFailure,
  requestPublish,
  requestUnpublish,
  unpublishProgress,
} from "./publications.js";
import { planSession } from "./session-plan.js";

const x = diskId("x");
const h1 = hostId("h1");
const h2 = hostId("h2");
const at = (state: Publication["state"], host = h1): Publication => ({
  hostId: host,
  state,
  sessionNumber: 150,
  exportPath: state === "PUBLISHED" ? "/x" : "",
  attempts: 0,
  lastError: "",
});

interface Scene {
  readonly publication?: Publication | undefined;
  readonly device?: DeviceFields;
  readonly h1?: Partial<Host>;
  readonly h2?: Partial<Host>;
}

/** Returns a fleet with disk x on devices d1 of h1 and d2 of h2. */
function scene(told: Scene = {}): TestFleet {
  return new TestFleet({
    hosts: [aHost("h1", told.h1), aHost("h2", told.h2)],
    devices: [aDevice("d1", { diskId: x, ...told.device }), aDevice("d2", { diskId: x, hostId: h2 })],
    disks: [aDisk("x", ["d1", "d2"], { publication: told.publication })],
  });
}

const shown = (fleet: TestFleet): string => {
  const publication = fleet.disk("x").publication;
  return publication === undefined ? "none" : `${publication.state} ${publication.hostId} ${publication.sessionNumber}`;
};

describe("publications", () => {
  const requests: readonly [
    string,
    Publication | undefined,
    "publish" | "unpublish" | "unpublish from h2",
    string,
    string,
  ][] = [
    ["publish, unpublished", undefined, "publish", "under_way", "PUBLISHING h1 201"],
    ["publish, on its way there", at("PUBLISHING"), "publish", "under_way", "PUBLISHING h1 150"],
    ["publish, there", at("PUBLISHED"), "publish", "reached", "PUBLISHED h1 150"],
    ["publish, on its way off", at("UNPUBLISHING"), "publish", "busy", "UNPUBLISHING h1 150"],
    ["publish, on its way off another host", at("UNPUBLISHING", h2), "publish", "busy", "UNPUBLISHING h2 150"],
    ["publish, there, and the host is to be removed", at("PUBLISHED"), "publish", "reached", "PUBLISHED h1 150"],
    ["unpublish, unpublished", undefined, "unpublish", "reached", "none"],
    ["unpublish, on its way there", at("PUBLISHING"), "unpublish", "under_way", "UNPUBLISHING h1 201"],
    ["unpublish, there", at("PUBLISHED"), "unpublish", "under_way", "UNPUBLISHING h1 201"],
    ["unpublish, on its way off", at("UNPUBLISHING"), "unpublish", "under_way", "UNPUBLISHING h1 150"],
    ["unpublish from a host where it is not", at("PUBLISHED"), "unpublish from h2", "reached", "PUBLISHED h1 150"],
    [
      "unpublish from the host where it is",
      at("PUBLISHED", h2),
      "unpublish from h2",
      "under_way",
      "UNPUBLISHING h2 201",
    ],
  ];
  for (const [cause, publication, verb, progress, effect] of requests) {
    it(`${cause} -> ${progress}, ${effect}`, () => {
      const fleet = scene({ publication, h1: { removalRequested: cause.includes("to be removed") } });
      const from = verb === "unpublish from h2" ? h2 : undefined;
      const step = fleet.transact((tx) =>
        verb === "publish" ? requestPublish(tx, x, h1) : requestUnpublish(tx, x, from),
      );
      expect(step.progress).to.equal(progress);
      expect(shown(fleet)).to.equal(effect);
    });
  }

  it("a disk whose device, or device's host, is to be removed is published, and moves while it is in use", () => {
    const fleet = scene({ device: { removalRequested: true }, h2: { removalRequested: true } });
    expect(fleet.transact((tx) => requestPublish(tx, x, h1)).progress).to.equal("under_way");
  });

  const refusals: readonly [string, Scene, new (message: string) => Error, string][] = [
    [
      "published to another host",
      { publication: at("PUBLISHED", h2) },
      InvalidStateError,
      "PUBLISHED to host h2, not to h1",
    ],
    [
      "published to a host that cannot be asked",
      { publication: at("PUBLISHED", h2), h2: { state: "UNAVAILABLE" } },
      InvalidStateError,
      "host h2 is UNAVAILABLE and cannot answer, FenceHost takes the disk from it",
    ],
    ["being published to another host", { publication: at("PUBLISHING", h2) }, InvalidStateError, "unpublish it first"],
    [
      "the host is UNAVAILABLE",
      { h1: { state: "UNAVAILABLE", stateMessage: "no heartbeat" } },
      UnavailableError,
      "no heartbeat",
    ],
    [
      "a device is in error",
      { device: { health: "ERROR", healthMessage: "EIO" } },
      InvalidStateError,
      "d1 on host h1 is in error: EIO",
    ],
    [
      "the host is to be removed",
      { h1: { removalRequested: true } },
      InvalidStateError,
      "cannot be published to host h1, which is to be removed",
    ],
    [
      "a device's host is UNAVAILABLE",
      { h2: { state: "UNAVAILABLE", stateMessage: "host h2 is UNAVAILABLE: no heartbeat" } },
      UnavailableError,
      "its device d2: host h2 is UNAVAILABLE: no heartbeat",
    ],
    [
      "a device's host is DEAD",
      { h2: { state: "DEAD", stateMessage: "host h2 is DEAD: smoke" } },
      UnavailableError,
      "its device d2: host h2 is DEAD: smoke",
    ],
    ["a device is CLOSING", { device: { attachState: "CLOSING" } }, InvalidStateError, "d1 on host h1 is CLOSING"],
    ["a device is another disk's", { device: { diskId: diskId("y") } }, InvalidStateError, "d1 was purged"],
  ];
  for (const [cause, told, errorClass, says] of refusals) {
    it(`${cause} is refused and changes nothing`, () => {
      const fleet = scene(told);
      const before = shown(fleet);
      expect(() => fleet.transact((tx) => requestPublish(tx, x, h1))).to.throw(errorClass, says);
      expect(shown(fleet)).to.equal(before);
    });
  }

  it("a publication with an ATTACHING device is accepted", () => {
    const fleet = scene({ device: { attachState: "ATTACHING" } });
    expect(fleet.transact((tx) => requestPublish(tx, x, h1)).progress).to.equal("under_way");
    expect(planSession(fleet.tables, x)?.blocked).to.contain("d1 on host h1 is ATTACHING");
  });

  it("a publication taken back before any device was asked ends at once, also with an absent host", () => {
    const fleet = scene({ device: { attachState: "ATTACHING" } });
    fleet.transact((tx) => requestPublish(tx, x, h2));
    expect(fleet.disk("x").publication?.unasked).to.equal(true);
    fleet.transact((tx) => tx.hosts.put(aHost("h1", { state: "UNAVAILABLE" })));
    expect(fleet.transact((tx) => requestUnpublish(tx, x, undefined)).progress).to.equal("reached");
    expect(fleet.disk("x").publication).to.equal(undefined);
    fleet.transact((tx) => deletedNow(tx, x));
    expect(fleet.tables.disks.get(x)).to.equal(undefined);
  });

  it("a publication taken back after a device may have been asked ends only by a fence", () => {
    const fleet = scene({ device: { attachState: "ATTACHING" } });
    const seen = fleet.transact((tx) => requestPublish(tx, x, h2)).disk.publication as Publication;
    expect(fleet.transact((tx) => markAsked(tx, x, seen))).to.equal(true);
    expect(fleet.transact((tx) => requestUnpublish(tx, x, undefined)).progress).to.equal("under_way");
    expect(fleet.disk("x").publication?.state).to.equal("UNPUBLISHING");
    expect(
      fleet.transact((tx) => markAsked(tx, x, seen)),
      "nobody is asked any more",
    ).to.equal(false);
    const sendable = scene();
    sendable.transact((tx) => requestPublish(tx, x, h2));
    expect(sendable.disk("x").publication?.unasked).to.equal(undefined);
  });

  const vanished: readonly [string, Partial<Host>, string[], string | undefined][] = [
    ["its host has registered without it", {}, ["d2"], undefined],
    ["its host is to register", { mustRegister: true }, ["d1", "d2"], "until its agent has registered"],
    [
      "its host is away",
      { state: "UNAVAILABLE", stateMessage: "h1 is silent" },
      ["d1", "d2"],
      "PurgeHost or PurgeDevice",
    ],
  ];
  for (const [cause, host, waitedFor, blocked] of vanished) {
    it(`a fence, and a device has vanished: ${cause} -> ${blocked ?? "that part counts as fenced"}`, () => {
      const device = { missing: true, health: "ERROR", attachState: "ATTACHING" } as const;
      const fleet = scene({ publication: at("UNPUBLISHING", h2), device, h1: host });
      const plan = planSession(fleet.tables, x);
      expect(plan?.devices.map(({ deviceId }) => deviceId)).to.deep.equal(waitedFor);
      expect(plan?.groups.map(({ devices }) => devices.map(({ deviceId }) => deviceId))).to.deep.equal([["d2"]]);
      if (blocked === undefined) expect(plan?.blocked).to.equal(undefined);
      else expect(plan?.blocked).to.contain(blocked);
    });
  }

  it("an unknown disk or host gets NOT_FOUND", () => {
    const fleet = scene();
    expect(() => fleet.transact((tx) => requestPublish(tx, diskId("y"), h1))).to.throw(NotFoundError, "y");
    expect(() => fleet.transact((tx) => requestPublish(tx, x, hostId("h9")))).to.throw(NotFoundError, "h9");
    expect(() => fleet.transact((tx) => requestUnpublish(tx, diskId("y"), undefined))).to.throw(NotFoundError, "y");
  });

  it("a publication's session is asked of every host with the disk's devices, and held by the publishing host", () => {
    const plan = planSession(scene({ publication: at("PUBLISHING", h2) }).tables, x);
    expect(plan?.holderHostId).to.equal("h2");
    expect(
      plan?.groups.map((group) => [group.host.hostId, ...group.devices.map(({ deviceId }) => deviceId)]),
    ).to.deep.equal([
      ["h1", "d1"],
      ["h2", "d2"],
    ]);
    expect(plan?.devices.map((device) => device.deviceId)).to.deep.equal(["d1", "d2"]);
    expect(plan?.blocked).to.equal(undefined);
  });

  it("a fence has no holder, asks devices in any state, and names an UNAVAILABLE host that blocks it", () => {
    const plan = planSession(
      scene({ publication: at("UNPUBLISHING"), device: { attachState: "ATTACHING" } }).tables,
      x,
    );
    expect(plan?.holderHostId).to.equal("");
    expect(plan?.blocked).to.equal(undefined);
    const cutOff = planSession(scene({ publication: at("UNPUBLISHING"), h2: { state: "UNAVAILABLE" } }).tables, x);
    expect(cutOff?.blocked).to.contain("host h2").and.to.contain("UNAVAILABLE");
    expect(cutOff?.groups.map((group) => group.host.hostId)).to.deep.equal(["h1"]);
  });

  it("a purged device blocks publishing, but no fence", () => {
    const fleet = new TestFleet({
      devices: [aDevice("d1", { diskId: x })],
      disks: [aDisk("x", ["d1", "gone"], { publication: at("UNPUBLISHING") })],
    });
    expect(planSession(fleet.tables, x)).to.deep.include({ blocked: undefined });
    const publishing = new TestFleet({ devices: [], disks: [aDisk("x", ["gone"], { publication: at("PUBLISHING") })] });
    expect(planSession(publishing.tables, x)?.blocked).to.contain("gone was purged");
  });

  it("a disk in its wanted state has no plan", () => {
    expect(planSession(scene().tables, x)).to.equal(undefined);
    expect(planSession(scene({ publication: at("PUBLISHED") }).tables, x)).to.equal(undefined);
    expect(planSession(scene().tables, diskId("y"))).to.equal(undefined);
  });

  it("a completed publication is PUBLISHED with its path, a completed unpublication is gone", () => {
    const publishing = scene({ publication: { ...at("PUBLISHING"), attempts: 2, lastError: "no" } });
    publishing.transact((tx) =>
      completePublish(tx, x, at("PUBLISHING"), { exportPath: "/run/x.sock", fixedSize: true }),
    );
    const settled = { ...at("PUBLISHED"), exportPath: "/run/x.sock", fixedSize: true } as const;
    expect(publishing.disk("x").publication).to.deep.equal(settled);
    const unpublishing = scene({ publication: at("UNPUBLISHING") });
    unpublishing.transact((tx) => completeUnpublish(tx, x, at("UNPUBLISHING"), true));
    expect(shown(unpublishing)).to.equal("none");
  });

  it("a completion after a newer request changes nothing", () => {
    const newer = { ...at("UNPUBLISHING"), sessionNumber: 151 };
    const fleet = scene({ publication: newer });
    fleet.transact((tx) => completePublish(tx, x, at("PUBLISHING"), { exportPath: "/late", fixedSize: false }));
    fleet.transact((tx) => completeUnpublish(tx, x, at("UNPUBLISHING"), true));
    fleet.transact((tx) => recordPublicationFailure(tx, x, at("PUBLISHING"), "late"));
    expect(fleet.disk("x").publication).to.deep.equal(newer);
  });

  it("a failed try records attempts and error", () => {
    const fleet = scene({ publication: at("PUBLISHING") });
    fleet.transact((tx) => recordPublicationFailure(tx, x, at("PUBLISHING"), "refused"));
    expect(fleet.disk("x").publication).to.include({ attempts: 1, lastError: "refused", state: "PUBLISHING" });
  });

  it("progress is ABORTED for a publication taken back, and reached for an unpublication once its fence is complete", () => {
    expect(publishProgress(scene({ publication: at("PUBLISHED") }).tables, x, h1).progress).to.equal("reached");
    expect(publishProgress(scene({ publication: at("PUBLISHING") }).tables, x, h1).progress).to.equal("under_way");
    for (const publication of [undefined, at("UNPUBLISHING"), at("PUBLISHED", h2)]) {
      expect(() => publishProgress(scene({ publication }).tables, x, h1)).to.throw(AbortedError);
    }
    expect(unpublishProgress(scene({ publication: at("UNPUBLISHING") }).tables, x).progress).to.equal("under_way");
    expect(unpublishProgress(scene().tables, x).progress).to.equal("reached");
    expect(unpublishProgress(scene({ publication: at("PUBLISHING", h2) }).tables, x).progress).to.equal("reached");
  });
});
