import { expect } from "chai";
import type { KnownVm } from "../explain/cause.js";
import type { Instance } from "../store/instance.js";
import type { DirectorTables } from "../store/schema.js";
import { known } from "../testing/known.js";
import { labelRows, vmRows } from "./vms.js";

const HEARD_MS = 1_700_000_012_345;
const one = {
  ...{ vmState: "running", vmCid: "vm-1", agentId: "a", cpi: "", az: "z1" },
  ...{ instanceId: "i", deployment: "work", group: "db", index: 0 },
} as Instance;

describe("rows of VMs", () => {
  const rowOf = (instance: Instance, about: Partial<KnownVm> = {}, heardAtMs = HEARD_MS) => {
    const vm = { ...{ instance, disks: [], owedRemovals: [], hostIds: [] }, ...about } as unknown as KnownVm;
    const health = { agentId: "a", heardAtMs, bootedAtMs: 0, jobState: "running", deployment: "", vitals: {} };
    const agentHealths = { shown: () => ({ health, silentMs: 0, isResponsive: true }) };
    return vmRows([instance], known({ vmOf: () => vm }), agentHealths).get("work/db/0");
  };

  it("its disks, without those not made yet, and no trouble", () => {
    const disks = [{ diskCid: "d", state: "attached" }, { diskCid: "" }] as unknown as KnownVm["disks"];
    expect(rowOf(one, { disks }))
      .to.deep.include({ state: "running", disks: ["d"] })
      .and.not.to.have.property("trouble");
  });

  it("its first cause that needs an action -> its trouble", () => {
    const row = rowOf({ ...one, ignore: true } as Instance, { silentSinceMs: 7, remedy: "recreated" });
    expect(row).to.include({ trouble: "the agent of work/db/0 is silent; its VM is recreated", sinceMs: 7 });
  });

  it("no agent -> never heard", () => {
    expect(rowOf({ ...one, agentId: "" })).to.include({ heardMs: 0 });
  });

  it("a heartbeat every few seconds -> at most one row change per minute", () => {
    const rows = [0, 5_000, 10_000].map((ms) => JSON.stringify(rowOf(one, {}, HEARD_MS + ms)));
    expect(new Set(rows)).to.have.length(1);
  });
});

describe("labels of disks", () => {
  it("a dynamic disk -> its name, and what it can be attached to; a persistent disk -> its instance; none without a cid or an instance", () => {
    const table = (...documents: readonly object[]) => ({ entries: () => documents });
    const disks = table(
      { name: "scratch", diskCid: "cid-1", deployment: "", vmCid: "host/h" },
      { name: "kept", diskCid: "cid-5", deployment: "work", vmCid: "" },
      { name: "unmade", diskCid: "" },
    );
    const persistentDisks = table(
      { diskCid: "cid-2", instanceId: "i" },
      { diskCid: "cid-3", instanceId: "" },
      { diskCid: "cid-4", instanceId: "gone" },
    );
    const instances = { get: (instanceId: string) => (instanceId === "i" ? one : undefined) };
    const labels = labelRows({ disks, persistentDisks, instances } as unknown as DirectorTables);
    expect([...labels]).to.deep.equal([
      ["cid-1", { text: "scratch", of: "host", isAttached: true }],
      ["cid-5", { text: "kept", of: "instance" }],
      ["cid-2", { text: "disk of work/db/0" }],
    ]);
  });
});
