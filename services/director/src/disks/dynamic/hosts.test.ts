import { type DomainError, InvalidArgumentError } from "@diskmesh/domain";
import { expect } from "chai";
import { type HostAnswer, hostAmong } from "./hosts.js";
import { parseMeantAttachment, parseNewPlace, parsePlace, parsePool } from "./parse.js";

describe("the CPI of a host", () => {
  const has = { az: "z1" };
  const failed = { failed: "nobody listens" };
  const AMONG: [Record<string, HostAnswer>, string][] = [
    [{ "": has }, " in z1"],
    [{ "": "absent", b: has }, "b in z1"],
    [{ a: has, b: { az: "z2" } }, "INVALID_STATE: host `h1` is ambiguous: request one of `a/h1` and `b/h1`"],
    [{ "": has, b: has }, "INVALID_STATE: host `h1` is ambiguous: request one of `/h1` and `b/h1`"],
    [{ a: has, b: has, c: failed }, "INVALID_STATE: host `h1` is ambiguous: request one of `a/h1` and `b/h1`"],
    [
      { a: has, b: failed },
      "UNAVAILABLE: host `h1` cannot be looked up, because not all CPIs answer: CPI `b`: nobody listens; to use the host of the one that has it, request `a/h1`",
    ],
    [
      { "": failed, b: "absent" },
      "UNAVAILABLE: host `h1` cannot be looked up, because not all CPIs answer: CPI `(default)`: nobody listens",
    ],
    [{ "": "absent", b: "absent" }, "NOT_FOUND: host `h1` not found: no CPI has it; `diskmesh hosts` lists hosts"],
  ];
  for (const [answers, effect] of AMONG)
    it(`${JSON.stringify(answers)} -> ${effect}`, () => {
      let said: string;
      try {
        const { cpi, az } = hostAmong("h1", new Map(Object.entries(answers)));
        said = `${cpi} in ${az}`;
      } catch (error) {
        said = `${(error as DomainError).reason}: ${(error as DomainError).message}`;
      }
      expect(said).to.equal(effect);
    });
});

describe("where a disk is to be attached", () => {
  const PLACES: [string, string, object | string][] = [
    ["i1", "", { instanceId: "i1" }],
    ["", "h1", { instanceId: "", hostId: "h1" }],
    ["", "fleet/h1", { instanceId: "", hostId: "h1", hostCpi: "fleet" }],
    ["", "/h1", { instanceId: "", hostId: "h1", hostCpi: "" }],
    ["", "", "instance_id"],
    ["i1", "h1", "host_id"],
    ["", "a/b/h1", "host_id"],
    ["", "../h1", "host_id"],
    ["", "h 1", "host_id"],
    ["", "fleet/", "host_id"],
    ["", "h1\0", "host_id"],
    ["", "h".repeat(65), "host_id"],
  ];
  for (const [instanceId, hostId, expected] of PLACES)
    it(`${JSON.stringify([instanceId, hostId.slice(0, 10)])} -> ${typeof expected === "string" ? `${expected} is refused` : JSON.stringify(expected)}`, () => {
      const place = () => parsePlace({ instanceId, hostId });
      if (typeof expected === "string") expect(place).to.throw(InvalidArgumentError, expected);
      else expect(place()).to.deep.equal(expected);
    });

  const NEW: [string, string, string, string, object | string][] = [
    ["web", "z1", "", "", { deployment: "web", az: "z1" }],
    ["web", "z1", "i1", "", { deployment: "web", az: "z1", instanceId: "i1" }],
    ["", "z1", "", "", { deployment: "", az: "z1" }],
    ["", "", "", "fleet/h1", { deployment: "", az: "", hostId: "h1", hostCpi: "fleet" }],
    ["", "", "", "", "az"],
    ["web", "", "", "h1", "host_id and deployment"],
    ["", "z1", "", "h1", "host_id and az"],
    ["", "", "", "../h1", "host_id"],
    ["", "z1", "i1", "", "instance_id is given without a deployment"],
    ["web", "", "i1", "", "az"],
    ["web", "z1", "i/1", "", "instance_id"],
    ["", "", "i1", "h1", "host_id and instance_id"],
  ];
  for (const [deployment, az, instanceId, hostId, expected] of NEW)
    it(`a new disk of ${JSON.stringify({ deployment, az, instanceId, hostId })} -> ${JSON.stringify(expected)}`, () => {
      const place = () => parseNewPlace({ deployment, az, instanceId, hostId });
      if (typeof expected === "string") expect(place).to.throw(InvalidArgumentError, expected);
      else expect(place()).to.deep.equal(expected);
    });

  const POOLS: [string, string, boolean, string][] = [
    ["fast", "", false, "fast"],
    ["", "ssd", true, "ssd"],
    ["", "", true, "default"],
    ["", "ssd", false, "!pool is of disks for hosts"],
    ["fast", "", true, "!disk_pool_name names a disk type"],
    ["", "", false, "!disk_pool_name is empty"],
    ["", "a b", true, "!pool"],
  ];
  for (const [diskPoolName, given, isForHosts, expected] of POOLS)
    it(`${JSON.stringify({ diskPoolName, pool: given })} for ${isForHosts ? "hosts" : "a deployment"} -> ${expected}`, () => {
      const pool = () => parsePool({ diskPoolName, pool: given }, isForHosts);
      if (expected.startsWith("!")) expect(pool).to.throw(InvalidArgumentError, expected.slice(1));
      else expect(pool()).to.equal(expected);
    });

  it("an attachment is meant by the host's id alone, because a disk never changes its CPI", () => {
    const meant = parseMeantAttachment({ instanceId: "", hostId: "fleet/h1", attachmentId: "a1" });
    expect(meant).to.deep.equal({ instanceId: "", hostId: "h1", attachmentId: "a1" });
  });
});
