import { setTimeout as sleep } from "node:timers/promises";
import {
  type Instance,
  InstanceState,
  JobsState,
  PersistentDiskState,
  type Task,
  TaskState,
  VmState,
} from "@diskmesh/api/director";
import { InvalidArgumentError, InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { TestDirector } from "../testing/test-director.js";

const CLOUD = `
azs: [{name: z1}]
vm_types: [{name: small, cloud_properties: {ram: 1}}, {name: large, cloud_properties: {ram: 2}}]
disk_types: [{name: fast, disk_size: 1024}]
networks: [{name: private, type: manual, subnets: [{range: 10.0.0.0/28, gateway: 10.0.0.1}]}]
`;
const STOP = ["script pre-stop", "drain shutdown", "stop", "script post-stop"];
const START = ["script pre-start", "start", "get_state", "script post-start"];

/**
 * The operators' commands for deployed instances. Agents run jobs as BOSH's agents do, unless a test says otherwise.
 */
describe("the lifecycle of instances", () => {
  let director: TestDirector;

  before(async () => {
    const agents = {
      requestTimeoutMs: 10_000,
      attachTimeoutMs: 30_000,
      detachTimeoutMs: 500,
      // Generous, because agents on a busy machine answer late.
      lostAfterMs: 5_000,
    };
    director = await TestDirector.start({ agents: { readyTimeoutMs: 30_000 }, tuning: { agents } });
    await director.configs.updateConfig({ type: "cloud", content: CLOUD });
  });
  after(() => director?.stop());
  beforeEach(async () => {
    await unignored();
    for (const agent of director.agents) {
      await agent.stop();
      agent.hasJobs = true;
      agent.startsAs.length = 0;
      agent.drains.length = 0;
      agent.failures.length = 0;
      await agent.start();
    }
    const { task } = await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    expect(task?.state).to.equal(TaskState.DONE, task?.result);
    for (const agent of director.agents) agent.calls.length = 0;
  });

  const unignored = async (): Promise<void> => {
    await director.lifecycle.unignore({ selection: { deployment: "web" } }).catch((error: unknown) => {
      if (!(error instanceof NotFoundError)) throw error;
    });
  };
  const manifest = (instances = 1, more = "", update = "canaries: 1, max_in_flight: 2") =>
    `name: web\nupdate: {${update}}\ninstance_groups:\n- {name: db, instances: ${instances}, azs: [z1], persistent_disk: 64, networks: [{name: private}], ${more || "vm_type: small"}}\n`;
  const deployed = async (text: string) => {
    const { result } = await director.deployManifest(text);
    expect(result).to.equal("/deployments/web");
    director.cpi.calls.length = 0;
    for (const agent of director.agents) agent.calls.length = 0;
  };
  const DB = { deployment: "web", group: "db", instance: "" };
  const ONE = { ...DB, instance: "0" };
  const ended = async (call: Promise<{ readonly task?: { readonly result: string } | undefined }>) =>
    (await call).task?.result;
  const done = async (call: Promise<{ readonly task?: { readonly result: string } | undefined }>) =>
    expect(await ended(call)).to.equal("/deployments/web");
  const stop = (selection: object, more: object = {}) => director.lifecycle.stop({ selection, wait: true, ...more });
  const start = (selection: object, more: object = {}) => director.lifecycle.start({ selection, wait: true, ...more });
  const restart = (selection: object, more: object = {}) =>
    director.lifecycle.restart({ selection, wait: true, ...more });
  const recreate = (selection: object, more: object = {}) =>
    director.lifecycle.recreate({ selection, wait: true, ...more });
  const instances = async () => (await director.deployments.listInstances({ deployment: "web" })).instances;
  const first = async () => (await instances())[0] as Instance;
  const agentCalls = async () => director.agent((await first()).agentId).calls;
  const cpiCalls = () => director.cpi.calls.map((call) => call.split(" ")[0]);
  const disk = async () => {
    const { disks } = await director.deployments.listPersistentDisks({ deployment: "web" });
    return disks.find(({ orphanTime }) => orphanTime === undefined);
  };

  it("deployed -> jobs start in BOSH's order once the disk is mounted; repeated -> no call", async () => {
    await director.deployManifest(manifest());
    const calls = await agentCalls();
    expect(calls.map((call) => call.split(" disk-")[0])).to.deep.equal(["add_persistent", "mount", ...START]);
    expect(await first()).to.include({ state: InstanceState.STARTED, jobsState: JobsState.STARTED, ignore: false });
    calls.length = 0;
    await deployed(manifest());
    expect(await agentCalls()).to.deep.equal([]);
  });

  it("stop -> jobs stopped, VM and disk kept; repeated -> no call; a deploy keeps it stopped; start -> runs", async () => {
    await deployed(manifest());
    await done(stop(ONE));
    expect(await agentCalls()).to.deep.equal(STOP);
    expect(cpiCalls()).to.deep.equal([]);
    expect(await first()).to.include({
      state: InstanceState.STOPPED,
      jobsState: JobsState.STOPPED,
      vmState: VmState.RUNNING,
    });
    await done(stop(ONE));
    expect(await agentCalls()).to.deep.equal(STOP);
    await deployed(manifest(1, "vm_type: large"));
    expect(await first()).to.include({
      state: InstanceState.STOPPED,
      jobsState: JobsState.STOPPED,
      vmState: VmState.RUNNING,
    });
    expect(await agentCalls()).to.deep.equal([], "made anew, but not started");
    await done(start(ONE));
    expect(await agentCalls()).to.deep.equal(START);
    expect(await first()).to.include({ state: InstanceState.STARTED, jobsState: JobsState.STARTED });
  });

  it("hard stop -> no VM, address and disk kept, dynamic disks detached; a deploy keeps that; start -> all restored", async () => {
    await deployed(manifest());
    const before = await first();
    const kept = await disk();
    await director.provide("data", before.instanceId);
    director.cpi.calls.length = 0;
    await done(stop(ONE, { hard: true }));
    expect(cpiCalls()).to.deep.equal(["detachDisk", "detachDisk", "deleteVm"]);
    expect(await first()).to.include({ state: InstanceState.DETACHED, vmState: VmState.NONE, vmCid: "" });
    expect((await director.disks.getDynamicDisk({ diskName: "data" })).disk?.vmCid).to.equal("");
    await deployed(manifest());
    expect(director.cpi.vms.size).to.equal(0);
    await done(start(ONE));
    const now = await first();
    expect(now.networks).to.deep.equal(before.networks);
    expect(await disk()).to.include({ diskCid: kept?.diskCid, vmCid: now.vmCid, state: PersistentDiskState.MOUNTED });
    expect((await agentCalls()).slice(-START.length)).to.deep.equal(START);
  });

  it("stop, while the cloud config lacks the disk's type or shrinks it -> stopped; start -> an error", async () => {
    await deployed(manifest(1, "vm_type: small").replace("persistent_disk: 64", "persistent_disk_type: fast"));
    const started = "disk_types: [{name: fast, disk_size: 1024}]";
    try {
      for (const [now, reason] of [
        ["", "`fast`"],
        ["disk_types: [{name: fast, disk_size: 64}]", "cannot shrink"],
      ] as const) {
        await director.configs.updateConfig({ type: "cloud", content: CLOUD.replace(started, now) });
        await done(stop(ONE));
        expect(await first()).to.include({
          state: InstanceState.STOPPED,
          jobsState: JobsState.STOPPED,
          vmState: VmState.RUNNING,
        });
        expect(await disk()).to.include({ state: PersistentDiskState.MOUNTED });
        expect(await ended(start(ONE))).to.contain(reason);
        await director.configs.updateConfig({ type: "cloud", content: CLOUD });
        await done(start(ONE));
        expect(await first()).to.include({ state: InstanceState.STARTED, jobsState: JobsState.STARTED });
      }
    } finally {
      await director.configs.updateConfig({ type: "cloud", content: CLOUD });
    }
  });

  it("restart -> jobs stop and start on the same VM; skip_drain -> neither pre-stop nor drain", async () => {
    await deployed(manifest());
    const { vmCid } = await first();
    await done(restart(ONE));
    expect(await agentCalls()).to.deep.equal(["script pre-stop", "drain update", ...STOP.slice(2), ...START]);
    (await agentCalls()).length = 0;
    await done(restart(ONE, { options: { skipDrain: true } }));
    expect(await agentCalls()).to.deep.equal([...STOP.slice(2), ...START]);
    expect((await first()).vmCid).to.equal(vmCid);
  });

  it("skip_drain of groups -> these groups are not drained, others are", async () => {
    await deployed(manifest());
    await done(restart(DB, { options: { skipDrainGroups: ["other", "db"] } }));
    expect(await agentCalls()).to.deep.equal([...STOP.slice(2), ...START]);
    (await agentCalls()).length = 0;
    await done(restart(DB, { options: { skipDrainGroups: ["other"] } }));
    expect((await agentCalls()).slice(0, 2)).to.deep.equal(["script pre-stop", "drain update"]);
    await rejection(
      restart(DB, { options: { skipDrainGroups: ["../db"] } }),
      InvalidArgumentError,
      "skip_drain_groups",
    );
  });

  describe("dry_run", () => {
    const DRY = { options: { dryRun: true } };
    const told = async (call: Promise<{ readonly task?: Task | undefined }>) => {
      const { task } = await call;
      expect(task).to.include({ state: TaskState.DONE, result: "/deployments/web" });
      expect(task?.description).to.match(/ \(dry run\)$/);
      const texts = await director.eventTexts(task?.taskId ?? 0);
      return texts.filter((text) => /^Dry run .* finished: $/.test(text)).map((text) => text.slice(8, -11));
    };
    const dryDeploy = (text: string, more: object = {}) =>
      director.deployments.deploy({ manifest: text, wait: true, ...more, ...DRY });
    const untouched = async (work: () => Promise<void>): Promise<void> => {
      const before = [await instances(), (await director.deployments.listDeployments({})).deployments];
      for (const agent of director.agents) agent.calls.length = 0;
      director.cpi.calls.length = 0;
      await work();
      expect([await instances(), (await director.deployments.listDeployments({})).deployments]).to.deep.equal(before);
      expect(director.agents.flatMap(({ calls }) => calls)).to.deep.equal([]);
      expect(director.cpi.calls.filter((call) => !/^(info|getCpi)/.test(call))).to.deep.equal([]);
    };

    it("of a deploy -> reports the action on each instance and performs none", async () => {
      await deployed(manifest(2));
      const [zero, one] = (await instances()).map(({ instanceId }) => instanceId);
      await untouched(async () => {
        expect(await told(dryDeploy(manifest(2)))).to.deep.equal([]);
        const [first, second, ...more] = await told(dryDeploy(manifest(2, "vm_type: large")));
        expect(first).to.match(new RegExp(`^db/${zero} would lose its vm: .+`));
        expect(second).to.match(new RegExp(`^db/${one} would lose its vm: .+`));
        expect(more).to.deep.equal([]);
        expect(await told(dryDeploy(manifest(3)))).to.deep.equal(["db/2 would get a vm"]);
        expect(await told(dryDeploy(manifest(1)))).to.deep.equal([`db/${one} would be deleted`]);
        const recreated = await told(dryDeploy(manifest(2), { recreate: true }));
        expect(recreated).to.deep.equal([zero, one].map((id) => `db/${id} would lose its vm: it was asked for`));
        const disks = manifest(2).replace("persistent_disk: 64", "persistent_disk: 128");
        expect(await told(dryDeploy(disks))).to.deep.equal(
          [zero, one].map((id) => `db/${id} would have its persistent disk changed`),
        );
      });
      await rejection(dryDeploy(manifest(1, "vm_type: none")), InvalidStateError, "vm_type `none`");
    });

    it("of a deploy that would be refused -> refused with the same error, and performs nothing", async () => {
      const refused = async (text: string, error: RegExp): Promise<void> => {
        await untouched(async () => {
          const { task } = await dryDeploy(text);
          expect(task?.state).to.equal(TaskState.ERROR);
          expect(task?.result).to.match(error);
        });
        const { state, result } = await director.deployManifest(text);
        expect(state).to.equal(TaskState.ERROR);
        expect(result).to.match(error);
      };
      await deployed(manifest(1));
      const [{ instanceId: id = "" } = {}] = await instances();
      director.cpi.apiVersions.set("", 1);
      try {
        await refused(manifest(2), /db\/\S+ needs the bosh-registry.*add `boshRegistry` to the director's config/);
      } finally {
        director.cpi.apiVersions.clear();
      }
      await deployed(manifest(1));
      await director.configs.updateConfig({ type: "cpi", content: "cpis: [{name: east, type: fleet}]" });
      await director.configs.updateConfig({ type: "cloud", content: CLOUD.replace("z1", "z1, cpi: east") });
      try {
        await refused(manifest(1), new RegExp(`db/${id} cannot move to CPI .east., because its persistent disk`));
      } finally {
        await director.configs.updateConfig({ type: "cloud", content: CLOUD });
        await director.configs.deleteConfig({ type: "cpi", name: "default" });
      }
    });

    it("of a new deployment -> reports its VMs, and creates no deployment", async () => {
      expect(await told(dryDeploy(manifest(1)))).to.deep.equal(["db/0 would get a vm"]);
      expect((await director.deployments.listDeployments({})).deployments).to.deep.equal([]);
    });

    it("of stop, start, restart and recreate -> reports, and performs nothing", async () => {
      await deployed(manifest());
      const { instanceId } = await first();
      await untouched(async () => {
        expect(await told(stop(DB, DRY))).to.deep.equal([`db/${instanceId} would be stopped`]);
        expect(await told(stop(DB, { hard: true, ...DRY }))).to.deep.equal([
          `db/${instanceId} would lose its vm: its VM is to be deleted (detached)`,
        ]);
        expect(await told(start(DB, DRY))).to.deep.equal([]);
        expect(await told(restart(DB, DRY))).to.deep.equal([`db/${instanceId} would be restarted`]);
        expect(await told(recreate(ONE, DRY))).to.deep.equal([`db/${instanceId} would lose its vm: it was asked for`]);
      });
    });
  });

  it("a slow drain -> polled until it ends; beyond the limit -> an error", async () => {
    await deployed(manifest());
    director.agent((await first()).agentId).drains.push(-1, 0);
    await done(stop(ONE));
    expect(await agentCalls()).to.deep.equal([STOP[0], STOP[1], "drain status", ...STOP.slice(2)]);
    await done(start(ONE));
    director.agent((await first()).agentId).drains.push(1_000_000);
    expect(await ended(stop(ONE))).to.match(/still draining after 3600000 ms: .*skip_drain/);
    // The stop failed halfway, so the jobs may be partly stopped. The next stop or start continues from there.
    expect(await first()).to.include({ state: InstanceState.STOPPED, jobsState: JobsState.STOPPING });
    await done(start(ONE));
  });

  it("recreate -> another VM with its disk, started; changed config of other instances is not applied", async () => {
    await deployed(manifest(2));
    const [one, two] = await instances();
    await director.configs.updateConfig({ type: "cloud", content: CLOUD.replace("ram: 1", "ram: 3") });
    try {
      await done(recreate(ONE));
    } finally {
      await director.configs.updateConfig({ type: "cloud", content: CLOUD });
    }
    const [now, other] = await instances();
    expect(now?.vmCid).not.to.equal(one?.vmCid);
    expect(other).to.deep.equal(two);
    expect(cpiCalls()).to.deep.equal([
      "detachDisk",
      "deleteVm",
      "createVm",
      "setVmMetadata",
      "attachDisk",
      "setDiskMetadata",
    ]);
    expect(director.cpi.vms.get(now?.vmCid ?? "")?.request.cloudProperties).to.include({ ram: 3 });
    expect((await agentCalls()).slice(-START.length)).to.deep.equal(START);
  });

  it("a group with a canary -> the canary first; when it does not run, the others stay unchanged", async () => {
    await deployed(manifest(3, "", "canaries: 1, max_in_flight: 2, canary_watch_time: 10, update_watch_time: 10"));
    const before = await instances();
    // The test CPI places the new VM on the host of the first VM, so this agent is also the new VM's.
    director.agent(before[0]?.agentId ?? "").startsAs.push("failing");
    expect(await ended(recreate(DB))).to.match(
      /^db\/.* is failing after 10 ms \(its watch time\); processes not running: web; see the logs/,
    );
    const after = await instances();
    expect(after.slice(1)).to.deep.equal(before.slice(1));
    expect(after[0]).to.include({ vmState: VmState.RUNNING, jobsState: JobsState.STOPPED });
    await done(recreate(DB, { options: { canaries: "0", maxInFlight: "3" } }));
    const vmCids = [...before, ...after, ...(await instances())].map(({ vmCid }) => vmCid);
    expect(new Set(vmCids).size).to.be.at.least(6);
  });

  it("deploy with recreate -> recreates every VM once", async () => {
    await deployed(manifest(2));
    const before = await instances();
    const { task } = await director.deployments.deploy({ manifest: manifest(3), recreate: true, wait: true });
    expect(task?.result).to.equal("/deployments/web");
    expect(cpiCalls().filter((call) => call === "createVm")).to.have.lengthOf(3);
    expect(cpiCalls().filter((call) => call === "deleteVm")).to.have.lengthOf(2);
    const now = await instances();
    for (const [index, instance] of before.entries()) expect(now[index]?.vmCid).not.to.equal(instance.vmCid);
  });

  it("an agent without job methods -> no jobs to stop or start, and every operation succeeds", async () => {
    for (const agent of director.agents) {
      await agent.stop();
      agent.hasJobs = false;
      await agent.start();
    }
    await deployed(manifest());
    await done(stop(ONE));
    await done(start(ONE));
    await done(restart(ONE));
    expect(await agentCalls()).to.deep.equal([]);
    expect(await first()).to.include({
      state: InstanceState.STARTED,
      jobsState: JobsState.STARTED,
      vmState: VmState.RUNNING,
    });
  });

  it("an agent that does not answer -> an error with the remedy; with fix -> the VM is recreated", async () => {
    await deployed(manifest(1));
    const { agentId, vmCid } = await first();
    const agent = director.agent(agentId);
    await agent.stop();
    expect(await ended(restart(ONE))).to.match(/does not answer: repeat the request with fix/);
    expect(await first()).to.include({ vmState: VmState.LOST, vmCid });
    const gate = director.cpi.gate("createVm", "before");
    const fixing = restart(ONE, { fix: true });
    await gate.reached;
    await agent.start();
    gate.release();
    await done(fixing);
    expect((await first()).vmCid).not.to.equal(vmCid);
    expect(await first()).to.include({ vmState: VmState.RUNNING, jobsState: JobsState.STARTED });
  });

  it("an ignored instance -> skipped by deploys and state changes, refused by name; unignored -> updated", async () => {
    await deployed(manifest(2));
    const [, two] = await instances();
    const selection = { ...DB, instance: two?.instanceId ?? "" };
    await director.lifecycle.ignore({ selection });
    const ignored = { ...two, ignore: true };
    await deployed(manifest(2, "vm_type: large"));
    await done(restart(DB));
    expect((await instances())[1]).to.deep.equal(ignored);
    await rejection(stop(selection), InvalidStateError, /is ignored: unignore it/);
    await rejection(
      director.deployments.deploy({ manifest: manifest(0) }),
      InvalidStateError,
      /no place for db\/.*, which is ignored/,
    );
    await rejection(
      director.deployments.deleteDeployment({ deployment: "web" }),
      InvalidStateError,
      /is ignored: unignore it first/,
    );
    const moved = (await director.deployManifest(manifest(2).replace("networks: [{name: private}], ", ""))).result;
    expect(moved).to.match(/is ignored, and the manifest changes its networks/);
    // The instance with the lower index leaves, because the other instance is ignored.
    await deployed(manifest(1));
    expect(await instances()).to.deep.equal([ignored]);
    await director.lifecycle.unignore({ selection });
    await deployed(manifest(1, "vm_type: large"));
    expect((await first()).vmCid).not.to.equal(two?.vmCid);
  });

  it("ignore while a task works on the instance -> refused", async () => {
    await deployed(manifest());
    const gate = director.cpi.gate("deleteVm", "before");
    const recreating = recreate(ONE);
    await gate.reached;
    await rejection(director.lifecycle.ignore({ selection: ONE }), InvalidStateError, /task \d+ is working on db\//);
    gate.release();
    await done(recreating);
  });

  it("a disk requested during a recreation -> waits for the lock until the recreation has ended", async () => {
    await deployed(manifest());
    const { instanceId } = await first();
    const gate = director.cpi.gate("deleteVm", "after");
    const recreating = recreate(ONE);
    await gate.reached;
    const providing = director.provide("late", instanceId);
    const waits = async () => (await director.locks.listLocks({})).locks.some((lock) => lock.waitingTaskIds.length > 0);
    while (!(await waits())) await sleep(20);
    gate.release();
    await done(recreating);
    expect((await providing).state).to.equal(TaskState.DONE);
    const { disk } = await director.disks.getDynamicDisk({ diskName: "late" });
    expect(disk?.vmCid).to.equal((await first()).vmCid);
    const order = (await agentCalls()).map((call) => call.split(" ")[0]);
    expect(order.lastIndexOf("add")).to.be.above(order.lastIndexOf("script"), "not before its jobs ran");
  });

  const WRONG: [() => Promise<unknown>, new (message: string) => Error, RegExp][] = [
    [() => stop({}), InvalidArgumentError, /selection\.deployment/],
    [() => stop({ deployment: "none" }), NotFoundError, /deployment `none` not found/],
    [() => stop({ ...ONE, group: "" }), InvalidArgumentError, /name the group/],
    [() => stop({ ...DB, instance: "../x" }), InvalidArgumentError, /selection\.instance/],
    [() => stop(ONE, { options: { canaries: "few" } }), InvalidArgumentError, /^canaries: give/],
    [() => recreate(ONE, { options: { maxInFlight: "-1" } }), InvalidArgumentError, /^max_in_flight: give/],
  ];
  it("bad requests -> refused", async () => {
    await deployed(manifest());
    for (const [call, kind, effect] of WRONG) await rejection(call(), kind, effect);
  });
});
