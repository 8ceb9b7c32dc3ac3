import { expect } from "chai";
import { newInstance } from "../instances/instance.js";
import type { Disk, DiskState } from "../store/disk.js";
import type { Instance, InstanceState, VmState } from "../store/instance.js";
import type { PersistentDisk, PersistentDiskState } from "../store/persistent-disk.js";
import { judgeVm, knownDynamic, knownPersistent, misplacedDisks, unknownVms, type VmSight } from "./scan.js";

const WELL: VmSight = {
  exists: true,
  attachedCids: ["d", "p"],
  agentAnswers: true,
  mountedCids: ["p"],
  linkedCids: ["d"],
};
const BLIND: VmSight = {
  exists: undefined,
  attachedCids: undefined,
  agentAnswers: undefined,
  mountedCids: undefined,
  linkedCids: undefined,
};

describe("findings of an inspection", () => {
  const place = { instanceId: "i", deployment: "web", group: "db", index: 0, az: "z1" };
  const instance = (vmState: VmState): Instance => ({ ...newInstance(place), vmState, vmCid: "v", agentId: "a" });
  const spec = { deployment: "web", az: "z1", cpi: "", sizeMib: 1, cloudProperties: {} };
  const dynamic = (state: DiskState, more: Partial<Disk> = {}): Disk => {
    const at = state === "detached" ? { instanceId: "", vmCid: "" } : { instanceId: "i", vmCid: "v" };
    const made = { name: "data", pool: "fast", token: "t", diskCid: "d", attachmentId: "x", hint: {}, metadata: {} };
    return { ...spec, ...made, state, ...at, ...more };
  };
  const persistent = (state: PersistentDiskState): PersistentDisk => {
    const vmCid = state === "detached" ? "" : "v";
    const made = { diskId: "1", group: "db", instanceId: "i", diskCid: "p", hint: {}, orphanedAtMs: null };
    return { ...spec, ...made, state, vmCid };
  };
  const others = new Map([["o", knownDynamic(dynamic("detached", { name: "other", diskCid: "o" }), "")]]);

  interface Row {
    readonly vm?: VmState;
    readonly state?: InstanceState;
    readonly dynamic?: DiskState;
    readonly persistent?: PersistentDiskState;
    readonly sight?: Partial<VmSight>;
    readonly owed?: string[];
    readonly hint?: null;
  }
  const ROWS: [string, Row, string[]][] = [
    ["all is well", {}, []],
    ["no information from CPI and agent", { sight: BLIND }, []],
    ["its CPI does not know it", { sight: { ...BLIND, exists: false } }, ["missing_vm"]],
    ["it is recorded as lost, and is well", { vm: "lost" }, []],
    ["there is none", { vm: "none" }, ["missing_vm"]],
    ["there is none, and is to be none", { vm: "none", state: "detached" }, []],
    ["its creation did not end", { vm: "creating" }, ["missing_vm"]],
    ["its deletion did not end", { vm: "deleting" }, ["missing_vm"]],
    ["its agent is silent", { sight: { ...BLIND, exists: true, agentAnswers: false } }, ["unresponsive_agent"]],
    ["silent, and its CPI cannot say", { sight: { ...BLIND, agentAnswers: false } }, ["unresponsive_agent"]],
    ["a disk is not attached", { sight: { attachedCids: ["p"] } }, ["mount_info_mismatch d"]],
    ["neither attached nor linked", { sight: { attachedCids: ["p"], linkedCids: [] } }, ["mount_info_mismatch d"]],
    ["being attached, and not there yet", { dynamic: "attaching", sight: { attachedCids: ["p"], linkedCids: [] } }, []],
    ["being detached, and there still", { dynamic: "detaching" }, []],
    ["not mounted", { sight: { mountedCids: [] } }, ["mount_info_mismatch p"]],
    ["attached, and not mounted yet", { persistent: "attached", sight: { mountedCids: [] } }, []],
    ["no link", { sight: { linkedCids: [] } }, ["missing_link d"]],
    ["no link, and none to be had", { hint: null, sight: { linkedCids: [] } }, []],
    ["a link that is owed", { sight: { linkedCids: ["d", "o"] }, owed: ["o"] }, []],
    ["another's link", { sight: { linkedCids: ["d", "o"] } }, ["surplus_link o"]],
    ["a stranger's link", { sight: { linkedCids: ["d", "s"] } }, ["surplus_link s"]],
    ["another's disk", { sight: { attachedCids: ["d", "p", "o"] } }, ["mount_info_mismatch o"]],
    ["an unrecorded disk, perhaps the VM's own", { sight: { attachedCids: ["d", "p", "root"] } }, []],
    ["detached, and there", { dynamic: "detached", sight: { linkedCids: [] } }, ["mount_info_mismatch d"]],
  ];
  for (const [what, row, expected] of ROWS)
    it(`${what} -> ${expected.join(", ") || "nothing"}`, () => {
      const hint = row.hint === null ? { hint: null } : {};
      const disk = knownDynamic(dynamic(row.dynamic ?? "attached", hint), "db");
      const own = knownPersistent(persistent(row.persistent ?? "mounted"));
      const known = new Map([...others, ["d", disk]]);
      const records = {
        instance: { ...instance(row.vm ?? "running"), state: row.state },
        disks: [disk, own].filter(({ vmCid }) => vmCid !== ""),
        owedCids: new Set(row.owed ?? []),
      };
      const verdict = judgeVm(records, { ...WELL, ...row.sight }, (cid) => known.get(cid));
      const findings = [...verdict.findings, ...misplacedDisks("web", [verdict])];
      expect(findings.map(({ type, diskCid }) => `${type} ${diskCid}`.trim())).to.deep.equal(expected);
    });

  it("VMs recorded before or after the listing, or being created -> known", () => {
    const known = (vmCids: string[], tokens: string[] = []) => ({ vmCids: new Set(vmCids), tokens: new Set(tokens) });
    const listed = ["a", "b", "c", "d"].map((name) => ({ vmCid: `vm-${name}`, agentId: name }));
    const found = unknownVms("web", "", listed, [known(["vm-a"]), known(["vm-b"], ["c"])]);
    expect(found.map(({ type, vmCid }) => `${type} ${vmCid}`)).to.deep.equal(["unknown_vm vm-d"]);
  });

  it("missing at one VM and attached to another -> one finding that names both", () => {
    const disk = knownDynamic(dynamic("attached"), "db");
    const here = { findings: [], lacking: [disk], surplus: [] };
    const there = { findings: [], lacking: [], surplus: [{ disk, vmCid: "w" }] };
    for (const verdicts of [
      [here, there],
      [there, here],
    ]) {
      const [finding, ...more] = misplacedDisks("web", verdicts);
      expect(more).to.deep.equal([]);
      expect(finding).to.deep.include({ type: "mount_info_mismatch", vmCid: "v", elsewhere: ["w"] });
      expect(finding?.description).to.equal("disk `data` should be attached to vm `v`, and it is attached to `w`");
    }
  });
});
