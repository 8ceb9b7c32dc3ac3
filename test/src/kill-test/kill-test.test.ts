import { AttachState, Device } from "@diskmesh/api/registry";
import { expect } from "chai";
import { Account, type DeviceAccount, type Told } from "./account.js";
import { runKillTest } from "./run.js";

describe("the registry and its agents, killed at random moments during adds and removes", function () {
  this.timeout(240_000);

  it("nothing acknowledged is lost, everything converges, nothing that was let go of stays open", async () => {
    const seed = Math.floor(Math.random() * 1_000_000) + 1;
    const result = await runKillTest({ seconds: 15, seed, hosts: 2, devicesPerHost: 4, report: () => {} });
    expect(result.violations, `seed ${seed}`).to.deep.equal([]);
    expect(result.kills.registry + result.kills.agents).to.be.above(2);
    expect(result.calls.answered).to.be.above(3);
    expect(result.descriptorChecks).to.be.above(10);
  });
});

describe("the account of the kill test", () => {
  const two = () =>
    new Account([
      { hostId: "h", deviceId: "a", path: "/p" },
      { hostId: "h", deviceId: "b", path: "/p" },
    ]);
  const tell = (account: Account, ...told: Told[]) => {
    for (const [index, word] of told.entries()) (account.devices[index] as DeviceAccount).told = word;
  };

  const rows: [string, Told, Partial<Device>, RegExp | undefined][] = [
    ["added, then CLOSING", "in", { attachState: AttachState.CLOSING }, /told "in", and it is ATTACH_STATE_CLOSING/],
    ["added, then UNKNOWN", "in", { attachState: AttachState.UNKNOWN }, /UNKNOWN/],
    ["added, with a wish to remove", "in", { attachState: AttachState.ATTACHED, removalRequested: true }, /wish/],
    ["removed, then ATTACHED", "leaving", { attachState: AttachState.ATTACHED }, /ATTACHED/],
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
