import { expect } from "chai";
import { backoffMs } from "./backoff.js";
import { InvalidArgumentError, TimeoutError, UnavailableError } from "./errors.js";
import { identityUri, parseIdentityUri } from "./role.js";
import { parseSizeBytes } from "./sizes.js";
import { compareStamps } from "./stamp.js";

describe("stamps", () => {
  const stamp = (tabletGeneration: number, deviceGeneration: number) => ({
    tabletId: "t",
    incarnation: "i",
    tabletGeneration,
    deviceGeneration,
  });
  const rows: [string, ReturnType<typeof stamp>, ReturnType<typeof stamp>, number][] = [
    ["equal", stamp(2, 3), stamp(2, 3), 0],
    ["same tablet generation -> the device generation decides", stamp(2, 3), stamp(2, 4), -1],
    ["a newer tablet generation beats any device generation", stamp(3, 1), stamp(2, 999), 1],
  ];
  for (const [title, a, b, sign] of rows)
    it(title, () => {
      expect(Math.sign(compareStamps(a, b))).to.equal(sign);
      expect(Math.sign(compareStamps(b, a)) + sign).to.equal(0);
    });
});

describe("identities", () => {
  it("round trip through the certificate's URI", () => {
    for (const identity of [
      { role: "disk-agent", name: "host-1" },
      { role: "operator", name: "" },
    ] as const)
      expect(parseIdentityUri(identityUri(identity))).to.deep.equal(identity);
  });

  for (const uri of [
    "spiffe://diskmesh/root",
    "spiffe://elsewhere/operator",
    "spiffe://diskmesh/disk-agent/a/b",
    "https://diskmesh/operator",
    "",
  ])
    it(`"${uri}" is no identity`, () => {
      expect(parseIdentityUri(uri)).to.equal(undefined);
    });
});

describe("sizes", () => {
  for (const value of [0, -1, 1.5, Number.NaN, 2 ** 63])
    it(`${value} is refused with the field's name`, () => {
      expect(() => parseSizeBytes("size_bytes", value)).to.throw(InvalidArgumentError, "size_bytes");
    });
});

describe("backoff", () => {
  const limits = { minDelayMs: 100, maxDelayMs: 30_000 };
  it("doubles from the minimum to the maximum, half of it random", () => {
    expect(backoffMs(0, limits, 0)).to.equal(50);
    expect(backoffMs(0, limits, 1)).to.equal(100);
    expect(backoffMs(3, limits, 1)).to.equal(800);
    expect(backoffMs(1000, limits, 1)).to.equal(30_000);
  });
});

describe("errors", () => {
  it("say whether the effect may have happened", () => {
    expect(new TimeoutError("late").outcome).to.equal("unknown");
    expect(new UnavailableError("no connection").outcome).to.equal("not_done");
    expect(new UnavailableError("lost", { outcome: "unknown" }).outcome).to.equal("unknown");
  });
});
