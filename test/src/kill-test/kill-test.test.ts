import { AttachState, Device } from "@diskmesh/api/registry";
import { leaveToVerify, skipBecause, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { openStore, STORE_NAMES } from "../mesh/stores.js";
import { isolationProblem } from "../namespaces/isolation.js";
import { Account, type DeviceAccount, type Told } from "./account.js";
import { runKillTest } from "./run.js";

describe("registry, agents and database, killed at random moments during adds and removes", function () {
  this.timeout(600_000);

  for (const name of STORE_NAMES)
    it(`${name} -> no acknowledged change is lost, everything converges, and no removed device stays open`, async function () {
      leaveToVerify(this);
      // Without it no host reboots.
      skipWithout(this, "unshare");
      const store = await openStore(name);
      if (typeof store === "string") return skipBecause(this, store);
      const seed = Math.floor(Math.random() * 1_000_000) + 1;
      try {
        // Each start costs half a second of CPU time, so most processes run on for a while once they serve.
        const options = { seconds: 5, seed, hosts: 2, devicesPerHost: 4, restMs: 3_000, report: () => {} };
        // Agents find tampering by themselves, with any store of the registry.
        const isTampering = name === "embedded";
        const result = await runKillTest({ ...options, store, mischief: isTampering ? undefined : ["kill"] });
        expect(result.violations.join("\n"), `seed ${seed}`).to.equal("");
        expect(result.kills.registry, "kills of registries").to.be.above(0);
        expect(result.kills.agents, "kills of agents").to.be.above(0);
        if (store.database !== undefined) expect(result.kills.database, "kills of the database").to.be.above(0);
        expect(result.calls.adds, "adds").to.be.above(0);
        expect(result.calls.removes, "removes").to.be.above(0);
        expect(result.calls.erased, "looks at what left").to.be.above(0);
        expect(result.restoredDevices, "devices as they were at the backup").to.be.above(0);
        expect(result.diskReads, "looks at disks").to.be.above(0);
        expect(result.triedDisks, "disks used while their host was meddled with").to.be.above(0);
        const { kill, reboot, ...others } = result.mischief;
        expect(kill, "kills of the disks' agent").to.be.above(0);
        if (isTampering) expect(Object.values(others), JSON.stringify(others)).not.to.include(0);
        if (isTampering && isolationProblem() === undefined) expect(reboot, "reboots").to.be.above(0);
        expect(result.descriptorChecks, "looks at descriptors").to.be.above(0);
      } finally {
        await store.remove();
      }
    });
});

describe("the account of the kill test", () => {
  const two = () =>
    new Account([
      { hostId: "h", deviceId: "a", path: "/p", offsetBytes: 0, sizeBytes: 1 },
      { hostId: "h", deviceId: "b", path: "/p", offsetBytes: 1, sizeBytes: 1 },
    ]);
  const tell = (account: Account, ...told: Told[]) => {
    for (const [index, word] of told.entries()) (account.devices[index] as DeviceAccount).told = word;
  };

  const rows: [string, Told, Partial<Device>, RegExp | undefined][] = [
    ["added, then CLOSING", "in", { attachState: AttachState.CLOSING }, /told "in", and it is ATTACH_STATE_CLOSING/],
    ["added, then UNKNOWN", "in", { attachState: AttachState.UNKNOWN }, /UNKNOWN/],
    ["added, with a wish to remove", "in", { attachState: AttachState.ATTACHED, removalRequested: true }, /wish/],
    ["removed, then ATTACHED", "leaving", { attachState: AttachState.ATTACHED }, /ATTACHED as if nobody had asked/],
    ["being erased", "leaving", { attachState: AttachState.ATTACHED, removalRequested: true }, undefined],
    ["out, then CLOSING", "out", { attachState: AttachState.CLOSING }, /CLOSING/],
    ["out without the agent's word", "out", { attachState: AttachState.DETACHED }, /without its agent's word/],
    ["a generation that goes back", "unsettled", { deviceGeneration: 4 }, /generation 4 after 5/],
    ["a tablet generation that goes back", "unsettled", { tabletGeneration: 1 }, /tablet generation 1 after 2/],
    ["out, as told", "out", { attachState: AttachState.DETACHED, detachConfirmed: true }, undefined],
  ];
  for (const [cause, told, fields, says] of rows)
    it(`${cause} -> ${says === undefined ? "right" : "a violation"}`, () => {
      const account = two();
      tell(account, "unsettled");
      const [device] = account.devices as [DeviceAccount];
      const base = { deviceGeneration: 5, tabletGeneration: 2 };
      account.compare(device, Device.fromPartial(base));
      tell(account, told);
      account.compare(device, Device.fromPartial({ ...base, ...fields }));
      expect(account.violations.length).to.equal(says === undefined ? 0 : 1);
      if (says !== undefined) expect(account.violations[0]).to.match(says);
    });

  it("after a restore the answers before the backup count again, and later ones do not", () => {
    const account = two();
    const [a, b] = account.devices as [DeviceAccount, DeviceAccount];
    tell(account, "in", "out");
    account.compare(a, Device.fromPartial({ attachState: AttachState.ATTACHED, deviceGeneration: 5 }));
    const mark = account.mark();
    tell(account, "in");
    account.backedUp(mark);
    expect(account.hasBackup).to.equal(true);
    expect(account.sinceBackup, "what was told of a is told again, of b not").to.deep.equal({ settled: 1, changed: 0 });
    b.told = "in";
    expect(account.sinceBackup).to.deep.equal({ settled: 1, changed: 1 });
    expect([...account.restored()].map(([device, { told }]) => [device, told])).to.deep.equal([[b, "out"]]);
    expect([a.told, b.told, account.hasBackup]).to.deep.equal(["unsettled", "unsettled", false]);
    const restored = { attachState: AttachState.DETACHED, detachConfirmed: true, tabletGeneration: 2 ** 20 };
    account.compare(b, Device.fromPartial(restored), "out");
    account.compare(a, Device.fromPartial({ ...restored, deviceGeneration: 5 }));
    expect(account.violations).to.deep.equal([]);
    account.compare(a, Device.fromPartial({ ...restored, deviceGeneration: 4 }));
    account.compare(b, Device.fromPartial({ ...restored, tabletGeneration: 3 }), "out");
    expect(account.violations).to.deep.equal(["a: generation 4 after 5", `b: tablet generation 3 after ${2 ** 20}`]);
  });

  for (const [cause, told, open, judged, wrong] of [
    ["all devices of a path are out, and it is open", ["out", "out"], ["/p"], 1, 1],
    ["the same, and the file was removed", ["out", "out"], ["/p (deleted)"], 1, 1],
    ["all are out, and it is closed", ["out", "out"], ["/q"], 1, 0],
    ["one device of the path is in", ["out", "in"], ["/p"], 0, 0],
    ["one is still leaving", ["out", "leaving"], ["/p"], 0, 0],
  ] as const)
    it(`${cause} -> ${wrong === 0 ? "right" : "a violation"}`, () => {
      const account = two();
      tell(account, ...told);
      expect(account.compareOpenFiles("h", open)).to.equal(judged);
      expect(account.violations.length).to.equal(wrong);
    });
});
