import { expect } from "chai";
import type { AgentKey } from "../store/instance.js";
import { type CertificateState, certificateState, envWithCert, isDue, isShutOut, withKey } from "./agent-key.js";

const TRUST = { authority: "ca-1", trusted: "nats-1" };
const KEY: AgentKey = { pin: "a", ...TRUST, issuedAtMs: 1_000, endsAtMs: 91_000 };

describe("the keys of agents", () => {
  const DUE: [string, Partial<typeof TRUST>, number, boolean][] = [
    ["it is new", {}, 1_000, false],
    ["less than a third of its life is over", {}, 30_999, false],
    ["a third of its life is over", {}, 31_000, true],
    ["it has ended", {}, 100_000, true],
    ["another authority signs", { authority: "ca-2" }, 1_000, true],
    ["NATS is known by other authorities", { trusted: "nats-2" }, 1_000, true],
  ];
  for (const [cause, change, nowMs, effect] of DUE)
    it(`${cause} -> ${effect ? "another one is due" : "nothing is due"}`, () => {
      expect(isDue([KEY], { ...TRUST, ...change }, nowMs)).to.equal(effect);
    });

  it("several, of which nobody knows which is used -> another one is due", () => {
    expect(isDue([KEY, KEY], TRUST, 1_000)).to.equal(true);
    expect(isDue([], TRUST, 1_000)).to.equal(false);
  });

  it("one more -> the first and the newest are kept, eight in all, and none that has ended", () => {
    const pins = Array.from({ length: 11 }, (_, index) => String(index));
    const keys = pins.reduce<readonly AgentKey[] | undefined>((so, pin) => withKey(so, { ...KEY, pin }), undefined);
    expect(keys?.map(({ pin }) => pin)).to.deep.equal(["0", "4", "5", "6", "7", "8", "9", "10"]);
    const later = { ...KEY, pin: "later", issuedAtMs: KEY.endsAtMs, endsAtMs: KEY.endsAtMs + 90_000 };
    expect(withKey(keys, later)).to.deep.equal([later]);
  });

  const STATES: [string, readonly AgentKey[], number, CertificateState, boolean][] = [
    ["a new one", [KEY], 1_000, "valid", false],
    ["one of which a third is over", [KEY], 31_000, "due", false],
    ["one that has ended, and one that has not", [KEY, { ...KEY, endsAtMs: 200_000 }], 100_000, "due", false],
    ["one that has ended", [KEY], 91_000, "ended", true],
    ["none any more", [], 1_000, "left_behind", true],
  ];
  for (const [what, keys, nowMs, state, shutOut] of STATES)
    it(`${what} -> ${state}${shutOut ? ", and that its agent is silent says nothing" : ""}`, () => {
      expect(certificateState(keys, TRUST, nowMs)).to.equal(state);
      expect(isShutOut(keys, nowMs)).to.equal(shutOut);
    });

  it("an agent with a certificate of somebody else may always be heard", () => {
    expect(isShutOut(undefined, 1e15)).to.equal(false);
  });

  it("a certificate in an env leaves the rest as it is", () => {
    const cert = { ca: "c" };
    expect(envWithCert({ a: 1, bosh: { ntp: ["n"], mbus: { urls: ["u"] } } }, cert)).to.deep.equal({
      a: 1,
      bosh: { ntp: ["n"], mbus: { urls: ["u"], cert } },
    });
    expect(envWithCert({}, cert)).to.deep.equal({ bosh: { mbus: { cert } } });
  });
});
