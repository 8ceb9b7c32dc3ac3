import { expect } from "chai";
import type { Instance } from "../store/instance.js";
import type { DirectorTables } from "../store/schema.js";
import { labelRows, vmRow, vmRows } from "./vms.js";

const HEARD_MS = 1_700_000_012_345;
const instance = { vmState: "running", vmCid: "vm-1", agentId: "a", cpi: "", az: "z1" } as Instance;
const shown = (isResponsive: boolean, heardAtMs = HEARD_MS) => ({
  health: { agentId: "a", heardAtMs, bootedAtMs: 0, jobState: "running", deployment: "", vitals: {} },
  silentMs: 0,
  isResponsive,
});

describe("rows of VMs", () => {
  const cases: [string, Parameters<typeof vmRow>, object][] = [
    ["all is well -> no trouble", [instance, ["d"], shown(true)], { state: "running", disks: ["d"] }],
    [
      "a silent agent -> silent since its last heartbeat",
      [instance, [], shown(false)],
      { trouble: "its agent is silent", sinceMs: HEARD_MS },
    ],
    [
      "an agent without a heartbeat -> silent since an unknown time",
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
      [instance, [], shown(false), { owed: [{ diskName: "scratch", diskCid: "c", sinceMs: 7 }] }],
      {
        trouble:
          "its agent is silent; its agent was unreachable when disk scratch was detached: the detach notification is pending",
      },
    ],
    [
      "no registry has its host any more, as Explain says it",
      [
        { ...instance, deployment: "d", group: "g", index: 0, instanceId: "i" } as Instance,
        [],
        shown(true),
        { isForgotten: true },
      ],
      { trouble: "the host of VM vm-1 of d/g/i was purged: no disk-registry knows it" },
    ],
    [
      "it is being made -> its agent owes nothing",
      [{ ...instance, vmState: "created" }, [], shown(false)],
      { state: "created" },
    ],
    [
      "no VM while a task works on its deployment -> nothing of an agent, and no trouble",
      [{ ...instance, vmState: "none", vmCid: "", agentId: "" }, [], undefined, { isBusy: true }],
      { cid: "", heardMs: 0 },
    ],
    [
      "no VM, and no task that makes it -> trouble",
      [{ ...instance, vmState: "none", deployment: "d" }, [], undefined],
      { trouble: "its VM was not made, and no task is making it: deploy d again, or run cloud-check" },
    ],
    [
      "a VM of unknown outcome, and no task that finds out -> trouble",
      [{ ...instance, vmState: "creating", deployment: "d" }, [], undefined],
      {
        trouble: "it is not known whether its VM was made, and no task finds out: deploy d again, or run cloud-check",
      },
    ],
    [
      "a VM that an operator had deleted -> no trouble",
      [{ ...instance, vmState: "none", state: "detached" }, [], undefined],
      { state: "none" },
    ],
    [
      "its agent owes the removal of a disk -> since the disk was detached",
      [instance, [], shown(true), { owed: [{ diskName: "scratch", diskCid: "c", sinceMs: 7 }] }],
      {
        trouble: "its agent was unreachable when disk scratch was detached: the detach notification is pending",
        sinceMs: 7,
      },
    ],
  ];
  for (const [title, given, expected] of cases)
    it(title, () => {
      const row = vmRow(...given);
      expect(row).to.include.keys(Object.keys(expected)).and.to.deep.include(expected);
      expect("trouble" in row).to.equal("trouble" in expected);
    });

  it("a heartbeat every few seconds -> at most one row change per minute", () => {
    const rows = [0, 5_000, 10_000].map((ms) => JSON.stringify(vmRow(instance, [], shown(true, HEARD_MS + ms))));
    expect(new Set(rows)).to.have.length(1);
  });
});

const one = { ...instance, instanceId: "i", deployment: "work", group: "db", index: 0, agentId: "", stemcell: "" };
const none = { by: () => [] };

describe("VMs whose host was purged", () => {
  it("are told, unless the VM has a stemcell or is being made", () => {
    const tables = { tasks: none, persistentDisks: none, disks: none } as unknown as DirectorTables;
    const told = (change: Partial<Instance>, isNowhere = true): string | undefined => {
      const known = { agentHealths: { shown: () => undefined as never }, isNowhere: () => isNowhere };
      return vmRows(tables, [{ ...one, ...change } as Instance], known).get("work/db/0")?.trouble;
    };
    expect(told({})).to.contain("the host of VM vm-1 of work/db/i was purged: no disk-registry knows it");
    expect(told({}, false)).to.equal(undefined);
    expect(told({ stemcell: "jammy/1" })).to.equal(undefined);
    expect(told({ vmState: "creating", state: "detached" })).to.equal(undefined);
  });
});

describe("labels of disks", () => {
  it("a dynamic disk -> its name; a persistent disk -> its instance; none without a cid or an instance", () => {
    const table = (...documents: readonly object[]) => ({ entries: () => documents });
    const disks = table({ name: "scratch", diskCid: "cid-1" }, { name: "unmade", diskCid: "" });
    const persistentDisks = table(
      { diskCid: "cid-2", instanceId: "i" },
      { diskCid: "cid-3", instanceId: "" },
      { diskCid: "cid-4", instanceId: "gone" },
    );
    const instances = { get: (instanceId: string) => (instanceId === "i" ? one : undefined) };
    const labels = labelRows({ disks, persistentDisks, instances } as unknown as DirectorTables);
    expect([...labels]).to.deep.equal([
      ["cid-1", { text: "scratch" }],
      ["cid-2", { text: "disk of work/db/0" }],
    ]);
  });
});
