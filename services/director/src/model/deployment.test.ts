import { expect } from "chai";
import { decideDeleteDeployment, decideDeploy, locksOfStep } from "./deployment.js";
import { type Disk, intendCreateDisk } from "./disk.js";
import {
  agentAnswered,
  type Instance,
  intendCreateVm,
  intendDeleteVm,
  type MadeVm,
  targetOf,
  type VmIntent,
  type VmState,
  vmCreated,
  vmDeleted,
  vmNotCreated,
} from "./instance.js";
import { placeInstances } from "./placement.js";

const MADE: MadeVm = {
  vmCid: "vm-t",
  agentId: "host-1",
  cpi: "",
  cpiApiVersion: 2,
  usesRegistry: false,
  networks: {},
};
const intent = (vmToken: string): VmIntent => ({
  vmToken,
  cpi: "",
  stemcell: "",
  stemcellApiVersion: 0,
  cpiApiVersion: 2,
  usesRegistry: false,
  ips: {},
  vmSpec: { stemcellCid: "", cloudProperties: {}, networks: {}, env: {} },
});

function inState(vmState: VmState, instanceId = "i1"): Instance {
  const none = placeInstances("web", [{ name: "db", instances: 1, azs: ["z1"] }], [], () => instanceId)
    .added[0] as Instance;
  const creating = intendCreateVm(none, intent("t"));
  const created = vmCreated(creating, MADE);
  return { none, creating, created, running: agentAnswered(created), deleting: intendDeleteVm(created) }[vmState];
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
  });

describe("deployment decisions", () => {
  const DEPLOY: [string, Instance[], string][] = [
    ["no instances", [], "nothing"],
    ["all running", [inState("running")], "nothing"],
    ["one without a VM", [inState("running"), inState("none", "i2")], "create_vm i2"],
    ["a creation left unfinished", [inState("creating")], "create_vm i1"],
    ["an agent that has not answered", [inState("created")], "await_agent i1"],
    [
      "one to come and one to leave",
      [inState("none"), { ...inState("running", "i2"), leaving: true }],
      "delete_instance i2",
    ],
  ];
  for (const [cause, instances, effect] of DEPLOY) {
    it(`deploy: ${cause} -> ${effect}`, () => {
      const step = decideDeploy(instances);
      expect("instance" in step ? `${step.do} ${step.instance.instanceId}` : step.do).to.equal(effect);
    });
  }

  it("delete: instances, then disks, then nothing", () => {
    expect(decideDeleteDeployment([inState("none")], [disk("a")]).do).to.equal("delete_instance");
    expect(decideDeleteDeployment([], [disk("a")]).do).to.equal("delete_disk");
    expect(decideDeleteDeployment([], []).do).to.equal("nothing");
  });

  it("deleting an instance -> its lock, then those of its disks, within the deployment's", () => {
    const locks = locksOfStep("web", { do: "delete_instance", instance: inState("running") }, [disk("b"), disk("a")]);
    expect(locks.map((lock) => `${lock.type} ${lock.resource}`)).to.deep.equal([
      "deployment web",
      "instance i1",
      "disk a",
      "disk b",
    ]);
    expect(locksOfStep("web", { do: "create_vm", instance: inState("none") }, [disk("a")])).to.have.lengthOf(2);
    expect(locksOfStep("web", { do: "delete_disk", disk: disk("a") }, [])).to.have.lengthOf(2);
    expect(locksOfStep("web", { do: "nothing" }, [])).to.have.lengthOf(1);
  });
});

describe("VM states", () => {
  const EVENTS = {
    intend_create: (instance: Instance) => intendCreateVm(instance, intent("other")),
    create: (instance: Instance) => vmCreated(instance, MADE),
    fail_create: vmNotCreated,
    answer: agentAnswered,
    intend_delete: intendDeleteVm,
    delete: vmDeleted,
  };
  const EXPECTED: Record<VmState, Partial<Record<keyof typeof EVENTS, VmState>>> = {
    none: { intend_create: "creating" },
    creating: { intend_create: "creating", create: "created", fail_create: "none" },
    created: { answer: "running", intend_delete: "deleting" },
    running: { intend_delete: "deleting" },
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

  it("creation asked for again -> the first token is kept", () => {
    expect(intendCreateVm(inState("creating"), intent("other")).vmToken).to.equal("t");
  });

  for (const state of ["none", "creating", "deleting"] as const) {
    it(`a disk for an instance whose VM is ${state} -> refused`, () => {
      expect(() => targetOf("i1", inState(state))).to.throw("no active vm found for instance `i1`");
    });
  }
  it("a disk for an unknown instance -> refused", () => {
    expect(() => targetOf("i9", undefined)).to.throw("instance `i9` not found");
  });
  it("a disk for an instance whose agent is silent -> its VM is there, go on", () => {
    expect(targetOf("i1", inState("created")).vmCid).to.equal("vm-t");
  });
});
