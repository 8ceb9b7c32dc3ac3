import { expect } from "chai";
import { intendCreateDisk } from "../disks/dynamic/disk.js";
import {
  agentAnswered,
  intendCreateVm,
  intendDeleteVm,
  type MadeVm,
  targetOf,
  type VmIntent,
  vmCreated,
  vmDeleted,
  vmLost,
  vmNotCreated,
} from "../instances/instance.js";
import type { VmChange } from "../instances/vm-change.js";
import type { Disk } from "../store/disk.js";
import type { Instance, VmBasis, VmState } from "../store/instance.js";
import { decideDeploy, locksOfStep } from "./deployment.js";
import { placeInstances } from "./placement.js";

const MADE: MadeVm = {
  vmCid: "vm-t",
  agentId: "host-1",
  cpi: "",
  cpiApiVersion: 2,
  usesRegistry: false,
  networks: {},
};
const BASIS: VmBasis = { stemcell: "", cloudProperties: {}, networks: {}, env: {}, tags: {}, member: "web/0" };
const intent = (vmToken: string): VmIntent => ({
  vmToken,
  cpi: "",
  stemcell: "",
  stemcellApiVersion: 0,
  cpiApiVersion: 2,
  usesRegistry: false,
  ips: {},
  basis: BASIS,
  vmSpec: { stemcellCid: "", cloudProperties: {}, networks: {}, env: {} },
});

function inState(vmState: VmState, instanceId = "i1"): Instance {
  const none = placeInstances("web", [{ name: "db", instances: 1, azs: ["z1"] }], [], () => instanceId)
    .added[0] as Instance;
  const creating = intendCreateVm(none, intent("t"));
  const created = vmCreated(creating, MADE);
  const running: Instance = { ...agentAnswered(created), jobs: "started" };
  return { none, creating, created, running, lost: vmLost(running), deleting: intendDeleteVm(created) }[vmState];
}
const disk = (name: string): Disk =>
  intendCreateDisk(undefined, {
    name,
    deployment: "web",
    az: "z1",
    cpi: "",
    pool: "p",
    sizeMib: 1,
    cloudProperties: {},
    token: "t",
    incarnation: "i",
    createdAtMs: 1,
  });

describe("deployment decisions", () => {
  const KEEP: VmChange = { do: "keep" };
  // Changes by group name, so that a case chooses an instance's change by its group.
  const CHANGES: Record<string, VmChange> = {
    changed: { do: "recreate", because: "its env has changed" },
    tagged: { do: "set_metadata" },
  };
  const hasDiskWork = (instance: Instance) => instance.index === 7;
  const changed = (state: VmState, id?: string): Instance => ({ ...inState(state, id), group: "changed" });
  const diskWork = (instance: Instance): Instance => ({ ...instance, index: 7 });
  /** An instance of group "swapping" needs the address of the other instance while the other instance has a VM. */
  const swapping = (state: VmState, id?: string): Instance => ({ ...inState(state, id), group: "swapping" });
  const holder = (of: Instance, all: readonly Instance[]) =>
    all.find((each) => of.group === "swapping" && each !== of && each.vmState !== "none");
  const DEPLOY: [string, Instance[], string][] = [
    ["a changed instance", [inState("running"), changed("running", "i2")], "delete_vm i2"],
    ["a changed instance, and one without a VM", [changed("running"), inState("none", "i2")], "create_vm i2"],
    [
      "a changed instance, and one whose agent has not answered",
      [changed("running"), inState("created", "i2")],
      "await_agent i2",
    ],
    ["a changed instance whose agent has not answered", [changed("created")], "delete_vm i1"],
    [
      "a changed instance, and disk work on another",
      [changed("running"), diskWork(inState("running", "i2"))],
      "persistent_disk i2",
    ],
    ["a changed instance with disk work", [diskWork(changed("running"))], "delete_vm i1"],
    ["a lost VM", [inState("running"), inState("lost", "i2")], "delete_vm i2"],
    ["a lost VM, before a changed instance", [changed("running"), inState("lost", "i2")], "delete_vm i2"],
    [
      "an unfinished deletion, before an instance without a VM",
      [inState("none"), inState("deleting", "i2")],
      "delete_vm i2",
    ],
    ["new tags", [{ ...inState("running"), group: "tagged" }], "set_vm_metadata i1"],
    ["disk work", [diskWork(inState("running"))], "persistent_disk i1"],
    ["no instances", [], "nothing"],
    ["all running", [inState("running")], "nothing"],
    ["an instance without a VM", [inState("running"), inState("none", "i2")], "create_vm i2"],
    ["a creation left unfinished", [inState("creating")], "create_vm i1"],
    [
      "an instance without a VM whose address another VM has",
      [swapping("none"), swapping("running", "i2")],
      "delete_vm i2",
    ],
    [
      "two instances that swap addresses, neither with a VM",
      [swapping("none"), swapping("none", "i2")],
      "create_vm i1",
    ],
    [
      "two instances that swap addresses, one creation begun",
      [swapping("none"), swapping("creating", "i2")],
      "create_vm i2",
    ],
    ["an agent that has not answered", [inState("created")], "await_agent i1"],
    [
      "a new and a leaving instance",
      [inState("none"), { ...inState("running", "i2"), leaving: true }],
      "delete_instance i2",
    ],
  ];
  for (const [cause, instances, effect] of DEPLOY) {
    it(`deploy: ${cause} -> ${effect}`, () => {
      const changeOf = (instance: Instance) => CHANGES[instance.group] ?? KEEP;
      const step = decideDeploy(instances, {
        changeOf,
        hasDiskWork,
        holderOf: (of) => holder(of, instances),
        fixesLost: true,
      });
      expect("instance" in step ? `${step.do} ${step.instance.instanceId}` : step.do).to.equal(effect);
    });
  }

  it("deleting an instance -> its lock, then those of its disks, within the deployment's", () => {
    const locks = locksOfStep({ do: "delete_instance", instance: inState("running") }, [disk("b"), disk("a")]);
    expect(locks.map((lock) => `${lock.type} ${lock.resource}`)).to.deep.equal(["instance i1", "disk a", "disk b"]);
    const outdated = { do: "delete_vm", instance: inState("running"), because: "" } as const;
    expect(locksOfStep(outdated, [disk("b"), disk("a")])).to.deep.equal(locks);
    expect(locksOfStep({ do: "create_vm", instance: inState("none") }, [disk("a")])).to.have.lengthOf(1);
  });
});

describe("VM states", () => {
  const EVENTS = {
    intend_create: (instance: Instance) => intendCreateVm(instance, intent("other")),
    create: (instance: Instance) => vmCreated(instance, MADE),
    fail_create: vmNotCreated,
    answer: agentAnswered,
    lose: vmLost,
    intend_delete: intendDeleteVm,
    delete: vmDeleted,
  };
  const EXPECTED: Record<VmState, Partial<Record<keyof typeof EVENTS, VmState>>> = {
    none: { intend_create: "creating" },
    creating: { intend_create: "creating", create: "created", fail_create: "none" },
    created: { answer: "running", lose: "lost", intend_delete: "deleting" },
    running: { lose: "lost", intend_delete: "deleting" },
    lost: { answer: "running", lose: "lost", intend_delete: "deleting" },
    deleting: { intend_delete: "deleting", delete: "none" },
  };
  for (const state of Object.keys(EXPECTED) as VmState[]) {
    for (const event of Object.keys(EVENTS) as (keyof typeof EVENTS)[]) {
      const expected = EXPECTED[state][event];
      it(`${state}, ${event} -> ${expected ?? "refused"}`, () => {
        if (expected === undefined) expect(() => EVENTS[event](inState(state))).to.throw(`is ${state}`);
        else expect(EVENTS[event](inState(state)).vmState).to.equal(expected);
      });
    }
  }

  it("a repeated intent to create -> keeps the first token", () => {
    expect(intendCreateVm(inState("creating"), intent("other")).vmToken).to.equal("t");
  });

  for (const state of ["none", "creating", "lost", "deleting"] as const) {
    it(`a disk for an instance whose VM is ${state} -> refused`, () => {
      expect(() => targetOf("i1", inState(state))).to.throw("no active vm found for instance `i1`");
    });
  }
  it("a disk for an unknown instance -> refused", () => {
    expect(() => targetOf("i9", undefined)).to.throw("instance `i9` not found");
  });
  it("a disk for an instance with a silent agent -> accepted, because its VM exists", () => {
    expect(targetOf("i1", inState("created")).vmCid).to.equal("vm-t");
  });
});
