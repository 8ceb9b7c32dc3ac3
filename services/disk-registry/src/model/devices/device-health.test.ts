import { expect } from "chai";
import { aDevice, aHost, deviceId, hostId, TestFleet } from "../../testing/fleet-fixture.js";
import { register, registration, reported } from "../../testing/registrations.js";
import { applyHeartbeat } from "../hosts/heartbeats.js";
import type { Health } from "../store/schema.js";
import { metAtMs, sayOfDevices } from "./device-health.js";

const DAY_MS = 24 * 60 * 60 * 1_000;
const WORD_MS = 40_000;
const NOW_MS = 50_000;

const word = (atMs: number) => ({ by: "operator somebody", atMs, reason: "" });

function say(fleet: TestFleet, health: Health, atMs = WORD_MS): readonly string[] {
  const said = fleet.transact((tx) => sayOfDevices(tx, [deviceId("d1")], health, word(atMs)));
  return said.map((device) => device.deviceId);
}

/** Applies a message as a heartbeat and as a registration, each to its own fleet. */
function heard(fleetOf: () => TestFleet, message: string, atMs: number, nowMs = NOW_MS): readonly string[] {
  const failure = { message, metAtMs: atMs };
  const [beats, registers] = [fleetOf(), fleetOf()];
  const failed = [{ deviceId: deviceId("d1"), ...failure }];
  beats.transact((tx) => applyHeartbeat(tx, hostId("h1"), aHost("h1").bootId, { changed: [], failed }, nowMs));
  register(registers, registration([reported("d1", { hardwareError: failure })]), nowMs);
  return [beats, registers].map((fleet) => fleet.device("d1").keptHealth?.hardwareError?.message ?? "");
}

describe("health overrides and hardware errors of devices", () => {
  const wellSince = (atMs: number) => () => new TestFleet({ devices: [aDevice("d1", { saidWellAtMs: atMs })] });

  const words: readonly (readonly [what: string, metMs: number, nowMs: number, counts: boolean])[] = [
    ["met before the word", WORD_MS - 1, NOW_MS, false],
    ["met with the word", WORD_MS, NOW_MS, true],
    ["met after it", NOW_MS, NOW_MS, true],
    ["met before the word, with a clock that was set back behind it since", WORD_MS - 1, WORD_MS - 1, true],
    ["met before the word, told in its millisecond", WORD_MS - 1, WORD_MS, false],
  ];
  for (const [what, metMs, nowMs, counts] of words)
    it(`an error ${what} -> it ${counts ? "counts" : "does not count"}`, () => {
      const expected = counts ? "EIO" : "";
      expect(heard(wellSince(WORD_MS), "EIO", metMs, nowMs)).to.deep.equal([expected, expected]);
    });

  it("an error counts, whenever it occurred, without an operator's override", () => {
    const fleet = () => new TestFleet({ devices: [aDevice("d1")] });
    expect(heard(fleet, "EIO", NOW_MS - DAY_MS)).to.deep.equal(["EIO", "EIO"]);
  });

  it("a second error keeps the first one", () => {
    const failed = () => {
      const fleet = wellSince(WORD_MS)();
      const failure = { deviceId: deviceId("d1"), message: "first", metAtMs: NOW_MS };
      fleet.transact((tx) =>
        applyHeartbeat(tx, hostId("h1"), aHost("h1").bootId, { changed: [], failed: [failure] }, NOW_MS),
      );
      return fleet;
    };
    expect(heard(failed, "second", NOW_MS)).to.deep.equal(["first", "first"]);
  });

  const ages: readonly (readonly [ageMs: number, metMs: number])[] = [
    [0, NOW_MS],
    [1, NOW_MS - 1],
    [30 * DAY_MS, NOW_MS - 30 * DAY_MS],
    [30 * DAY_MS + 1, NOW_MS],
    [Number.MAX_SAFE_INTEGER, NOW_MS],
    [-1, NOW_MS],
    [-30 * DAY_MS, NOW_MS],
  ];
  for (const [ageMs, metMs] of ages)
    it(`an age of ${ageMs} ms -> met ${NOW_MS - metMs} ms ago`, () => {
      expect(metAtMs(ageMs, NOW_MS)).to.equal(metMs);
    });

  it("ONLINE for a healthy device changes nothing, excludes errors from before, and the last override counts", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1")] });
    expect(say(fleet, "ONLINE")).to.deep.equal([]);
    expect(fleet.device("d1")).to.deep.equal(aDevice("d1", { saidWellAtMs: WORD_MS }));
    expect(say(fleet, "WARNING")).to.deep.equal(["d1"]);
    expect(say(fleet, "ONLINE", WORD_MS + 5)).to.deep.equal(["d1"]);
    expect(fleet.device("d1").saidWellAtMs).to.equal(WORD_MS + 5);
    expect(say(fleet, "ONLINE", WORD_MS - 5), "the clock was set back").to.deep.equal([]);
    expect(fleet.device("d1").saidWellAtMs).to.equal(WORD_MS - 5);
  });

  it("an override other than ONLINE clears no error, then or later", () => {
    const fleet = () => {
      const said = wellSince(WORD_MS)();
      say(said, "WARNING", NOW_MS);
      return said;
    };
    expect(heard(fleet, "EIO", NOW_MS - 1)).to.deep.equal(["EIO", "EIO"]);
  });
});
