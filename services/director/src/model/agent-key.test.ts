import { expect } from "chai";
import { type AgentKey, envWithCert, isDue, withKey } from "./agent-key.js";

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
      expect(isDue(KEY, { ...TRUST, ...change }, nowMs)).to.equal(effect);
    });

  it("the newest is the last, and there are eight at most", () => {
    const pins = Array.from({ length: 10 }, (_, index) => String(index));
    const keys = pins.reduce<readonly AgentKey[] | undefined>((so, pin) => withKey(so, { ...KEY, pin }), undefined);
    expect(keys?.map(({ pin }) => pin)).to.deep.equal(pins.slice(2));
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
