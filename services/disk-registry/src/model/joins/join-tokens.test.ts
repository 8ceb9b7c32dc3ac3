import { InvalidArgumentError, InvalidStateError, NotFoundError, ResourceExhaustedError } from "@diskmesh/domain";
import { expect } from "chai";
import { aDevice, aHost, hostId, TestFleet } from "../../testing/fleet-fixture.js";
import { purgeHost } from "../hosts/purge-action.js";
import { type JoinToken, joinedHosts, joinTokens } from "../store/join-token.js";
import {
  addJoined,
  createToken,
  isHostOf,
  join,
  MAX_TOKENS,
  parseHostPattern,
  renew,
  revokeToken,
  takeJoined,
  tokenState,
} from "./join-tokens.js";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const NOW_MS = 1_000_000;
const aToken = (fields: Partial<JoinToken> = {}): JoinToken => ({
  tokenId: "t1",
  secretHash: "good",
  hosts: "rack7-*",
  uses: 2,
  usesLeft: 2,
  endsAtMs: NOW_MS + HOUR_MS,
  createdBy: "ann",
  createdAtMs: NOW_MS,
  ...fields,
});

describe("join tokens", () => {
  let fleet: TestFleet;
  let serial = 0;
  beforeEach(() => {
    serial = 0;
    fleet = new TestFleet({ hosts: [aHost("rack7-old")] });
    fleet.transact((tx) => createToken(tx, aToken()));
  });

  const joins = (host: string, { key = `key of ${host}`, secret = "good", tokenId = "t1", nowMs = NOW_MS } = {}) =>
    fleet.transact((tx) => {
      const hasSecretOf = ({ secretHash }: JoinToken) => secretHash === secret;
      const certificate = { serialNumber: `serial ${++serial}`, endsAtMs: NOW_MS + 90 * DAY_MS };
      join(tx, { tokenId, hasSecretOf, hostId: hostId(host), keyHash: key, certificate }, nowMs);
    });
  const left = () => fleet.tables.joinTokens.get("t1")?.usesLeft;

  it("match host ids by a pattern, in time that grows with its length only", () => {
    const rows: readonly [string, string, boolean][] = [
      ["*", "h", true],
      ["rack7-*", "rack7-1", true],
      ["rack7-*", "rack70-1", false],
      ["h1", "h1", true],
      ["h1", "h10", false],
      ["*-a", "b-a", true],
      ["a*a", "a", false],
      ["a*b*c", "aXbYc", true],
      ["a*b*c", "acb", false],
      ["*a".repeat(32), "a".repeat(31), false],
      ["*a".repeat(30), `${"a".repeat(63)}b`, false],
    ];
    for (const [pattern, host, is] of rows) expect(isHostOf(pattern, host), `${pattern} ${host}`).to.equal(is);
    expect(parseHostPattern("hosts", "")).to.equal("*");
    for (const bad of ["a b", "x".repeat(65), "../*", "a\n", "hôst"])
      expect(() => parseHostPattern("hosts", bad)).to.throw(InvalidArgumentError, "hosts");
  });

  it("admit as many hosts as they have uses, and a host whose answer was lost once more", () => {
    joins("rack7-1");
    joins("rack7-2");
    expect(left()).to.equal(0);
    expect(() => joins("rack7-3")).to.throw(InvalidStateError, "all its uses");
    joins("rack7-2");
    expect(left()).to.equal(0);
  });

  const refused: readonly [string, () => void, string][] = [
    ["another secret", () => joins("rack7-1", { secret: "bad" }), "knows no such join token"],
    ["an unknown token", () => joins("rack7-1", { tokenId: "t2" }), "knows no such join token"],
    ["a host outside the pattern", () => joins("rack8-1"), "for hosts rack7-*, not for rack8-1"],
    ["a host that exists", () => joins("rack7-old"), "host rack7-old exists"],
    ["a token that has ended", () => joins("rack7-1", { nowMs: NOW_MS + HOUR_MS }), "has ended"],
  ];
  for (const [what, tries, says] of refused)
    it(`refuse ${what}`, () => {
      expect(tries).to.throw(InvalidStateError, says);
      expect(left()).to.equal(2);
    });

  it("refuse a host that has joined with another key, until the token is revoked", () => {
    joins("rack7-1");
    expect(() => joins("rack7-1", { key: "another" })).to.throw(InvalidStateError, "revoke join token t1");
    fleet.transact((tx) => revokeToken(tx, "t1"));
    expect(() => joins("rack7-1")).to.throw(InvalidStateError, "knows no such");
    expect(() => fleet.transact((tx) => revokeToken(tx, "t1"))).to.throw(NotFoundError, "t1");
    fleet.transact((tx) => createToken(tx, aToken()));
    joins("rack7-1", { key: "another" });
  });

  it("end with a restore, which also leaves it to an operator to add a host that has joined", () => {
    joins("rack7-1");
    const restored = joinTokens.onRestore?.(aToken(), 0) as JoinToken;
    expect(tokenState(restored, NOW_MS)).to.equal("RESTORED");
    fleet.transact((tx) => {
      tx.joinTokens.put(restored);
      const joined = tx.joinedHosts.get("rack7-1");
      if (joined !== undefined) tx.joinedHosts.put(joinedHosts.onRestore?.(joined, 0) as typeof joined);
    });
    for (const host of ["rack7-1", "rack7-2"]) expect(() => joins(host)).to.throw(InvalidStateError, "restore");
    fleet.transact((tx) => tx.hosts.put(aHost("rack7-1")));
    expect(fleet.transact((tx) => takeJoined(tx, hostId("rack7-1")))).to.equal(false);
  });

  it("add a host with its drives once, when it registers first", () => {
    joins("rack7-1");
    fleet.transact((tx) => {
      tx.hosts.put(aHost("rack7-1"));
      tx.devices.put(aDevice("d1", { hostId: hostId("rack7-1"), attachState: "UNKNOWN", serialNumber: "s1" }));
    });
    expect(fleet.transact((tx) => takeJoined(tx, hostId("rack7-1")))).to.equal(true);
    const call = { nowMs: NOW_MS, waitingRetryAfterMs: 1 };
    expect(fleet.transact((tx) => addJoined(tx, hostId("rack7-1"), call))).to.contain("in operation");
    expect(fleet.device("d1").attachState).to.equal("ATTACHING");
    expect(fleet.transact((tx) => takeJoined(tx, hostId("rack7-1")))).to.equal(false);
  });

  it("admit a purged name as a new one, which costs a use", () => {
    const purge = () => fleet.transact((tx) => purgeHost(tx, hostId("rack7-old"), true));
    purge();
    joins("rack7-old");
    expect(left()).to.equal(1);
    fleet.transact((tx) => {
      tx.hosts.put(aHost("rack7-old"));
      takeJoined(tx, hostId("rack7-old"));
    });
    expect(() => joins("rack7-old")).to.throw(InvalidStateError, "host rack7-old exists");
    purge();
    joins("rack7-old", { key: "another" });
    expect(left()).to.equal(0);
  });

  it("add no drive that this fleet knows, which needs an operator", () => {
    joins("rack7-1");
    const onHost = (id: string, serialNumber: string) =>
      aDevice(id, { hostId: hostId("rack7-1"), attachState: "UNKNOWN", serialNumber });
    fleet.transact((tx) => {
      tx.hosts.put(aHost("rack7-1"));
      tx.devices.put(aDevice("d-old", { hostId: hostId("rack7-old"), serialNumber: "s1" }));
      for (const device of [onHost("d1", "s1"), onHost("d2", "s2")]) tx.devices.put(device);
    });
    const call = { nowMs: NOW_MS, waitingRetryAfterMs: 1 };
    expect(fleet.transact((tx) => addJoined(tx, hostId("rack7-1"), call)))
      .to.contain("d1")
      .and.contain("refused");
    expect([fleet.device("d1").attachState, fleet.device("d2").attachState]).to.deep.equal(["UNKNOWN", "ATTACHING"]);
    fleet.transact((tx) => tx.devices.delete("d2"));
    expect(fleet.transact((tx) => addJoined(tx, hostId("rack7-1"), call))).to.contain("not added");
  });

  const serials = (host: string) => fleet.host(host).certificates?.map(({ serialNumber }) => serialNumber);

  it("leave the serial number of each certificate with the host, where those of renewals follow, one a day", () => {
    for (let times = 0; times < 16; times++) joins("rack7-1");
    expect(() => joins("rack7-1")).to.throw(ResourceExhaustedError, "16 certificates");
    expect(left()).to.equal(1);
    fleet.transact((tx) => {
      tx.hosts.put(aHost("rack7-1"));
      takeJoined(tx, hostId("rack7-1"));
    });
    expect(serials("rack7-1")).to.have.members(Array.from({ length: 16 }, (_, index) => `serial ${index + 1}`));
    const renews = (day: number) =>
      fleet.transact((tx) => {
        const certificate = { serialNumber: `of day ${day}`, endsAtMs: NOW_MS + (day + 90) * DAY_MS };
        renew(tx, hostId("rack7-1"), certificate, NOW_MS + day * DAY_MS);
      });
    renews(0);
    for (const day of [0.5, -0.5]) expect(() => renews(day)).to.throw(ResourceExhaustedError, "within the last day");
    renews(30);
    expect(serials("rack7-1")?.slice(-2)).to.deep.equal(["of day 0", "of day 30"]);
    renews(90);
    expect(serials("rack7-1")).to.deep.equal(["of day 30", "of day 90"]);
  });

  it("are limited in number, of which those that ended a day ago count no more", () => {
    fleet.transact((tx) => {
      for (let index = 2; index <= MAX_TOKENS; index++) createToken(tx, aToken({ tokenId: `t${index}` }));
    });
    const another = (createdAtMs: number) =>
      fleet.transact((tx) => createToken(tx, aToken({ tokenId: "new", createdAtMs, endsAtMs: createdAtMs + HOUR_MS })));
    expect(() => another(NOW_MS)).to.throw(ResourceExhaustedError, "revoke some");
    another(NOW_MS + 25 * HOUR_MS);
    expect(fleet.tables.joinTokens.size).to.equal(1);
  });
});
