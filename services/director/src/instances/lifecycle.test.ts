import { expect } from "chai";
import { type DeployNeeds, decideDeploy, isBroken, isMissing } from "../deployments/deployment.js";
import type { Instance, InstanceState, JobsState, VmState } from "../store/instance.js";
import type { WantedState } from "../store/task.js";
import { newInstance } from "./instance.js";
import { askedChange, changeable, passDone, selectInstances, want } from "./lifecycle.js";

const TASK = 7;

function made(vmState: VmState, jobs: JobsState, state: InstanceState = "started", more: Partial<Instance> = {}) {
  const place = { instanceId: "i1", deployment: "web", group: "db", index: 0, az: "" };
  return { ...newInstance(place), vmState, vmCid: vmState === "none" ? "" : "vm", jobs, state, ...more };
}

describe("lifecycle decisions", () => {
  /** Returns the next step of a task whose request is recorded. */
  const next = (wanted: WantedState, instance: Instance, fixesLost = false): string => {
    const needs: DeployNeeds = {
      changeOf: (each) => askedChange(each, wanted, TASK),
      hasDiskWork: () => false,
      holderOf: () => undefined,
      fixesLost,
    };
    try {
      return decideDeploy([want(instance, wanted, TASK)], needs).do;
    } catch (error) {
      return (error as Error).message.includes("repeat the request with fix") ? "refused" : String(error);
    }
  };
  // Instances whose VM runs with its jobs, runs without, is half stopped, lost, silent, partly deleted, or absent.
  const STATES: [string, Instance][] = [
    ["running", made("running", "started")],
    ["stopped", made("running", "stopped", "stopped")],
    ["half stopped", made("running", "stopping", "stopped")],
    ["lost", made("lost", "started")],
    ["silent", made("created", "stopped")],
    ["half deleted", made("deleting", "stopping", "detached")],
    ["half made", made("creating", "stopped")],
    ["detached", made("none", "stopped", "detached")],
  ];
  const EXPECTED: Record<WantedState, string[]> = {
    started: ["nothing", "start", "start", "refused", "await_agent", "delete_vm", "create_vm", "create_vm"],
    stopped: ["stop", "nothing", "stop", "refused", "await_agent", "delete_vm", "create_vm", "create_vm"],
    detached: ["delete_vm", "delete_vm", "delete_vm", "delete_vm", "delete_vm", "delete_vm", "create_vm", "nothing"],
    restart: ["restart", "start", "restart", "refused", "await_agent", "delete_vm", "create_vm", "create_vm"],
    recreate: ["delete_vm", "delete_vm", "delete_vm", "delete_vm", "delete_vm", "delete_vm", "create_vm", "create_vm"],
  };
  for (const [wanted, effects] of Object.entries(EXPECTED) as [WantedState, string[]][])
    for (const [index, [name, instance]] of STATES.entries())
      it(`${wanted}, ${name} -> ${effects[index]}`, () => {
        expect(next(wanted, instance)).to.equal(effects[index]);
      });

  for (const wanted of ["started", "stopped", "restart"] as const)
    it(`${wanted}, lost, with fix -> recreated`, () => {
      expect(next(wanted, made("lost", "started"), true)).to.equal("delete_vm");
    });

  it("restarted or recreated by the same task -> not again; by a later task -> again", () => {
    for (const wanted of ["restart", "recreate"] as const) {
      const done = { ...made("running", "started"), changedByTaskId: TASK };
      expect(next(wanted, done)).to.equal("nothing");
      expect(next(wanted, { ...done, changedByTaskId: TASK - 1 })).not.to.equal("nothing");
    }
  });

  it("no VM to recreate -> counts as done, so that the VM is created once", () => {
    expect(passDone(made("none", "stopped"), "recreate", TASK).changedByTaskId).to.equal(TASK);
    expect(passDone(made("running", "stopped"), "restart", TASK).changedByTaskId).to.equal(TASK);
    expect(passDone(made("running", "started"), "restart", TASK).changedByTaskId).to.equal(undefined);
    expect(passDone(made("none", "stopped"), "started", TASK).changedByTaskId).to.equal(undefined);
  });

  it("a deploy -> leaves stopped and detached instances alone, and finishes what was begun", () => {
    const deploy = (instance: Instance) =>
      decideDeploy([instance], {
        changeOf: () => ({ do: "keep" }),
        hasDiskWork: () => false,
        holderOf: () => undefined,
        fixesLost: true,
      }).do;
    expect(deploy(made("running", "stopped", "stopped"))).to.equal("nothing");
    expect(deploy(made("running", "stopping", "stopped"))).to.equal("stop");
    expect(deploy(made("none", "stopped", "stopped"))).to.equal("create_vm");
    expect(deploy(made("none", "stopped", "detached"))).to.equal("nothing");
    expect(deploy(made("running", "started", "detached"))).to.equal("delete_vm");
    expect(deploy(made("running", "stopping"))).to.equal("start");
    expect(deploy(made("lost", "started", "started", { ignore: true }))).to.equal("nothing");
  });

  it("the address of an ignored instance is assigned to another -> refused", () => {
    const ignored = made("running", "started", "started", { instanceId: "i2", ignore: true });
    const needs: DeployNeeds = {
      changeOf: () => ({ do: "keep" }),
      hasDiskWork: () => false,
      holderOf: () => ignored,
      fixesLost: true,
    };
    expect(() => decideDeploy([made("none", "stopped"), ignored], needs)).to.throw("db/i2, which is ignored");
  });

  const MISSING: [string, Instance, boolean, boolean][] = [
    ["never made", made("none", "stopped"), true, true],
    ["half made", made("creating", "stopped"), true, true],
    ["never answered", made("created", "stopped"), true, true],
    ["half deleted", made("deleting", "stopping"), true, true],
    ["gone", made("lost", "stopped"), true, true],
    ["silent, and may serve", made("lost", "started"), false, true],
    ["stopped and silent", made("lost", "stopped", "stopped"), false, true],
    ["detached", made("none", "stopped", "detached"), false, false],
    ["never started", made("running", "stopped"), false, true],
    ["running", made("running", "started"), false, false],
    ["of an earlier release", { ...made("running", "started"), jobs: undefined, state: undefined }, false, false],
  ];
  for (const [name, instance, missing, broken] of MISSING)
    it(`${name} -> ${missing ? "" : "not "}missing, ${broken ? "broken" : "healthy"}`, () => {
      expect([isMissing(instance), isBroken(instance)]).to.deep.equal([missing, broken]);
    });
});

describe("selections of instances", () => {
  const all = ["db/0/a", "db/1/b", "ui/0/c", "old/0/d"].map((text) => {
    const [group = "", index, instanceId = ""] = text.split("/");
    const instance = newInstance({ instanceId, deployment: "web", group, index: Number(index), az: "" });
    return { ...instance, leaving: group === "old", ignore: instanceId === "b" };
  });
  const CASES: [string, string, string][] = [
    ["", "", "a,c"],
    ["db", "", "a"],
    ["db", "0", "a"],
    ["db", "a", "a"],
    ["db", "1", "db/b is ignored: unignore it"],
    ["db", "2", "has no instance `db/2`"],
    ["db", "c", "has no instance `db/c`"],
    ["old", "", "has no instance group `old`"],
    ["none", "", "has no instance group `none`"],
  ];
  for (const [group, instance, effect] of CASES)
    it(`${group}/${instance} -> ${effect}`, () => {
      const selection = { group, instance };
      const select = () =>
        changeable(selectInstances(all, selection), selection)
          .map(({ instanceId }) => instanceId)
          .join();
      if (effect.includes(" ")) expect(select).to.throw(effect);
      else expect(select()).to.equal(effect);
    });
});
