import { NotFoundError } from "@diskmesh/domain";
import { expect } from "chai";
import { aDevice, aDisk, aHost, deviceId, diskId, hostId, TestFleet } from "../../testing/fleet-fixture.js";
import { sayOfHosts } from "../hosts/host-words.js";
import type { Disk, Host, Publication } from "../store/schema.js";
import { fenceHost, fenceProgress } from "./fences.js";
import { completeUnpublish, requestPublish, requestUnpublish } from "./publications.js";
import { planSession } from "./session-plan.js";

const x = diskId("x");
const h1 = hostId("h1");
const h2 = hostId("h2");
const word = { by: "operator ada", atMs: 9, reason: "smoke" };

const at = (state: Publication["state"], fields: Partial<Publication> = {}): Publication => ({
  hostId: h1,
  state,
  sessionNumber: 150,
  exportPath: "",
  attempts: 3,
  lastError: "no",
  ...fields,
});

/** Returns a fleet with disk x on devices d2 of h2 and d3 of h3. */
function scene(disk: Partial<Disk>, hosts: { h1?: Partial<Host>; h3?: Partial<Host> } = {}): TestFleet {
  return new TestFleet({
    hosts: [aHost("h1", hosts.h1), aHost("h2"), aHost("h3", hosts.h3)],
    devices: [aDevice("d2", { hostId: h2, diskId: x }), aDevice("d3", { hostId: hostId("h3"), diskId: x })],
    disks: [aDisk("x", ["d2", "d3"], disk)],
  });
}

const fence = (fleet: TestFleet, host = h1) => fleet.transact((tx) => fenceHost(tx, host, word));

describe("fences", () => {
  const fenced = { ...word, hostId: h1 };
  const earlier = { ...fenced, by: "operator eve" };
  const cases: readonly [string, Partial<Disk>, string | undefined, Disk["fence"] | undefined][] = [
    ["PUBLISHED", { publication: at("PUBLISHED") }, "UNPUBLISHING 201", fenced],
    ["PUBLISHING", { publication: at("PUBLISHING") }, "UNPUBLISHING 201", fenced],
    ["UNPUBLISHING in a friendly way", { publication: at("UNPUBLISHING") }, "UNPUBLISHING 201", fenced],
    ["fenced already", { publication: at("UNPUBLISHING"), fence: earlier }, "UNPUBLISHING 150", earlier],
    ["published elsewhere", { publication: at("PUBLISHED", { hostId: h2 }) }, "PUBLISHED 150", undefined],
    ["unpublished", {}, undefined, undefined],
  ];
  for (const [cause, disk, publication, kept] of cases) {
    it(`the host is fenced, the disk ${cause} -> ${publication ?? "no publication"}`, () => {
      const fleet = scene(disk);
      const isMeant = disk.publication?.hostId === h1;
      expect(fence(fleet)).to.deep.equal(isMeant ? ["x"] : []);
      const now = fleet.disk("x").publication;
      expect(now && `${now.state} ${now.sessionNumber}`).to.equal(publication);
      expect(fleet.disk("x").fence).to.deep.equal(kept);
    });
  }

  it("answer NOT_FOUND for an unknown host", () => {
    expect(() => fence(scene({}), hostId("h9"))).to.throw(NotFoundError, "h9");
  });

  it("are kept once complete, until the disk is published again", () => {
    const fleet = scene({ publication: at("PUBLISHED") });
    fence(fleet);
    const seen = fleet.disk("x").publication as Publication;
    fleet.transact((tx) => completeUnpublish(tx, x, seen, true));
    expect(fleet.disk("x")).to.deep.include({ fence: fenced });
    expect(fleet.disk("x").publication).to.equal(undefined);
    fleet.transact((tx) => requestPublish(tx, x, h2));
    expect(fleet.disk("x").fence).to.equal(undefined);
  });

  const told: readonly [string, boolean, Partial<Host>, true | undefined][] = [
    ["the host said that it serves it no more", true, {}, undefined],
    ["the host said nothing", false, {}, true],
    ["the host is UNAVAILABLE", false, { state: "UNAVAILABLE" }, true],
  ];
  for (const [cause, isTold, host, mustRegister] of told) {
    it(`complete, and ${cause}: ${mustRegister ? "the host must register again" : "the host need not register again"}`, () => {
      const fleet = scene({ publication: at("PUBLISHED") }, { h1: host });
      fence(fleet);
      const seen = fleet.disk("x").publication as Publication;
      fleet.transact((tx) => completeUnpublish(tx, x, seen, isTold));
      expect(fleet.host("h1").mustRegister).to.equal(mustRegister);
    });
  }

  it("name an absent device's host and one that does not answer, and ask the others", () => {
    const fleet = scene({ publication: at("PUBLISHED") }, { h3: { state: "UNAVAILABLE", stateMessage: "h3 is gone" } });
    fence(fleet);
    expect(
      planSession(fleet.tables, x)?.groups.map(({ devices }) => devices.map(({ deviceId }) => deviceId)),
    ).to.deep.equal([["d2"]]);
    const progress = (answers: [string, string][]) =>
      fenceProgress(fleet.tables, x, h1, new Map(answers.map(([id, text]) => [deviceId(id), text])));
    expect(progress([]).unaskedDevices.map((device) => device.deviceId)).to.deep.equal(["d3"]);
    const { complete, unaskedDevices } = progress([["d2", "no answer"]]);
    expect(complete).to.equal(false);
    expect(unaskedDevices.map((device) => [device.deviceId, device.hostId])).to.deep.equal([
      ["d2", "h2"],
      ["d3", "h3"],
    ]);
    expect(unaskedDevices.map(({ reason }) => reason).join())
      .to.contain("no answer")
      .and.to.contain("h3 is gone");
    expect(fenceProgress(scene({}).tables, x, h1, new Map())).to.deep.include({ complete: true });
  });

  const rules: readonly [string, "KEEP" | "FENCE" | undefined, "KEEP" | "FENCE" | undefined, "FENCE" | undefined][] = [
    ["nothing said", undefined, undefined, undefined],
    ["FENCE", "FENCE", undefined, "FENCE"],
    ["FENCE, then KEEP", "FENCE", "KEEP", undefined],
    ["KEEP, then FENCE", "KEEP", "FENCE", "FENCE"],
  ];
  for (const [cause, first, second, rule] of rules) {
    it(`on_host_silence: ${cause} -> ${rule ?? "KEEP"}, in the same session`, () => {
      const fleet = scene({});
      fleet.transact((tx) => requestPublish(tx, x, h1, { onHostSilence: first }));
      fleet.transact((tx) => requestPublish(tx, x, h1, { onHostSilence: second }));
      expect(fleet.disk("x").publication).to.include({ sessionNumber: 201 });
      expect(fleet.disk("x").publication?.onHostSilence).to.equal(rule);
      fleet.transact((tx) => requestUnpublish(tx, x, undefined));
      expect(fleet.disk("x").publication?.onHostSilence).to.equal(rule);
    });
  }

  const ofDisk: readonly ["KEEP" | "FENCE" | undefined, "FENCE" | undefined][] = [
    [undefined, "FENCE"],
    ["KEEP", undefined],
  ];
  for (const [said, rule] of ofDisk) {
    it(`on_host_silence: FENCE of the disk, ${said ?? "nothing"} of its publication -> ${rule ?? "KEEP"}`, () => {
      const fleet = scene({ onHostSilence: "FENCE" });
      fleet.transact((tx) => requestPublish(tx, x, h1, { onHostSilence: said }));
      fleet.transact((tx) => requestPublish(tx, x, h1));
      expect(fleet.disk("x").publication?.onHostSilence).to.equal(rule);
    });
  }

  const words: readonly [string, boolean, Partial<Publication>, number][] = [
    ["fence: true, FENCE", true, { onHostSilence: "FENCE" }, 1],
    ["fence: true, KEEP", true, {}, 0],
    ["fence: false, FENCE", false, { onHostSilence: "FENCE" }, 0],
  ];
  for (const [cause, wanted, publication, count] of words) {
    it(`the host is said dead, ${cause} -> ${count} fences`, () => {
      const fleet = scene({ publication: at("PUBLISHED", publication) });
      const { fencedDiskIds } = fleet.transact((tx) => sayOfHosts(tx, [h1], "dead", word, wanted));
      expect(fencedDiskIds.length).to.equal(count);
      expect(fleet.disk("x").publication?.state).to.equal(count === 1 ? "UNPUBLISHING" : "PUBLISHED");
    });
  }
});
