import { expect } from "chai";
import type { AgentKey } from "../store/instance.js";
import { type CertificateState, certificateState, envWithCert, isDue, isShutOut, withKey } from "./agent-key.js";

const TRUST = { authority: "ca-1", trusted: "nats-1" };
const KEY: AgentKey = { pin: "a", ...TRUST, issuedAtMs: 1_000, endsAtMs: 91_000 };

describe("certificates (keys) of an agent", () => {
  const DUE: [string, Partial<typeof TRUST>, number, boolean][] = [
    ["it is new", {}, 1_000, false],
    ["less than a third of its life is over", {}, 30_999, false],
    ["a third of its life is over", {}, 31_000, true],
    ["it has ended", {}, 100_000, true],
    ["another authority signs", { authority: "ca-2" }, 1_000, true],
    ["NATS is known by other authorities", { trusted: "nats-2" }, 1_000, true],
  ];
  for (const [cause, change, nowMs, effect] of DUE)
    it(`${cause} -> ${effect ? "a renewal is due" : "no renewal is due"}`, () => {
      expect(isDue([KEY], { ...TRUST, ...change }, nowMs)).to.equal(effect);
    });

  it("several keys, of which the used one is unknown -> a renewal is due", () => {
    expect(isDue([KEY, KEY], TRUST, 1_000)).to.equal(true);
    expect(isDue([], TRUST, 1_000)).to.equal(false);
  });

  it("a new key -> the first key and the newest keys are kept, at most eight and none that has expired", () => {
    const pins = Array.from({ length: 11 }, (_, index) => String(index));
    const keys = pins.reduce<readonly AgentKey[] | undefined>((so, pin) => withKey(so, { ...KEY, pin }), undefined);
    expect(keys?.map(({ pin }) => pin)).to.deep.equal(["0", "4", "5", "6", "7", "8", "9", "10"]);
    const later = { ...KEY, pin: "later", issuedAtMs: KEY.endsAtMs, endsAtMs: KEY.endsAtMs + 90_000 };
    expect(withKey(keys, later)).to.deep.equal([later]);
  });

  const STATES: [string, readonly AgentKey[], number, CertificateState, boolean][] = [
    ["a new key", [KEY], 1_000, "valid", false],
    ["a key with a third of its lifetime over", [KEY], 31_000, "due", false],
    ["an expired and a valid key", [KEY, { ...KEY, endsAtMs: 200_000 }], 100_000, "due", false],
    ["an expired key", [KEY], 91_000, "ended", true],
    ["none any more", [], 1_000, "left_behind", true],
  ];
  for (const [what, keys, nowMs, state, shutOut] of STATES)
    it(`${what} -> ${state}${shutOut ? ", and the agent's silence proves nothing" : ""}`, () => {
      expect(certificateState(keys, TRUST, nowMs)).to.equal(state);
      expect(isShutOut(keys, nowMs)).to.equal(shutOut);
    });

  it("an agent with a certificate from the manifest is never shut out", () => {
    expect(isShutOut(undefined, 1e15)).to.equal(false);
  });

  it("a certificate added to an env leaves the other fields unchanged", () => {
    const cert = { ca: "c" };
    expect(envWithCert({ a: 1, bosh: { ntp: ["n"], mbus: { urls: ["u"] } } }, cert)).to.deep.equal({
      a: 1,
      bosh: { ntp: ["n"], mbus: { urls: ["u"], cert } },
    });
    expect(envWithCert({}, cert)).to.deep.equal({ bosh: { mbus: { cert } } });
  });
});
