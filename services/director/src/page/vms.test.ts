import { expect } from "chai";
import type { Instance } from "../model/instance.js";
import { vmRow } from "./vms.js";

const HEARD_MS = 1_700_000_012_345;
const instance = { vmState: "running", vmCid: "vm-1", agentId: "a", cpi: "", az: "z1" } as Instance;
const shown = (isResponsive: boolean, heardAtMs = HEARD_MS) => ({
  health: { agentId: "a", heardAtMs, bootedAtMs: 0, jobState: "running", deployment: "", vitals: {} },
  silentMs: 0,
  isResponsive,
});

describe("a VM's row", () => {
  const cases: [string, Parameters<typeof vmRow>, object][] = [
    ["all is well -> no trouble", [instance, ["d"], shown(true)], { state: "running", disks: ["d"] }],
    [
      "its agent is silent -> so since it was heard",
      [instance, [], shown(false)],
      { trouble: "its agent is silent", sinceMs: HEARD_MS },
    ],
    [
      "never heard -> silent, nobody knows since when",
      [instance, [], { health: undefined, silentMs: 1e6, isResponsive: false }],
      { trouble: "its agent is silent", heardMs: 0 },
    ],
    [
      "its CPI says it is gone -> that, not its agent",
      [{ ...instance, vmState: "lost" }, [], shown(false)],
      { trouble: "its VM is gone" },
    ],
    [
      "its agent is silent, and is to forget a disk -> both",
      [instance, [], shown(false), ["scratch"]],
      { trouble: "its agent is silent; its agent was away when disk scratch was detached, and is still to forget it" },
    ],
    [
      "it is being made -> its agent owes nothing",
      [{ ...instance, vmState: "created" }, [], shown(false)],
      { state: "created" },
    ],
    [
      "no VM -> nothing of an agent",
      [{ ...instance, vmState: "none", vmCid: "", agentId: "" }, [], undefined],
      { cid: "", heardMs: 0 },
    ],
  ];
  for (const [title, given, expected] of cases)
    it(title, () => {
      const row = vmRow(...given);
      expect(row).to.include.keys(Object.keys(expected)).and.to.deep.include(expected);
      expect("trouble" in row).to.equal("trouble" in expected);
    });

  it("a beat each few seconds -> a change a minute at most", () => {
    const rows = [0, 5_000, 10_000].map((ms) => JSON.stringify(vmRow(instance, [], shown(true, HEARD_MS + ms))));
    expect(new Set(rows)).to.have.length(1);
  });
});
