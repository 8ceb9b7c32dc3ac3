import {
  PersistentDiskState,
  type Problem,
  ProblemResolutionType,
  ProblemType,
  type Task,
  TaskState,
  VmState,
} from "@diskmesh/api/director";
import { InvalidArgumentError, InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { TestDirector } from "../testing/test-director.js";

const CLOUD = "azs: [{name: z1}]\ndisk_types: [{name: fast, disk_size: 64}]\n";
const MANIFEST = `name: web
instance_groups:
- {name: db, instances: 1, azs: [z1], persistent_disk: 64}
- {name: app, instances: 1, azs: [z1]}
`;

describe("a deployment that deviates from its records", () => {
  let director: TestDirector;

  before(async () => {
    const tuning = { agents: { detachTimeoutMs: 500, lostAfterMs: 5_000 } };
    director = await TestDirector.start({ agents: { readyTimeoutMs: 30_000 }, tuning });
    await director.configs.updateConfig({ type: "cloud", content: CLOUD });
  });
  after(() => director?.stop());
  beforeEach(async () => {
    for (const agent of director.agents) {
      await agent.stop();
      agent.links.clear();
      agent.persistentDisks.clear();
      agent.mountedCid = undefined;
      await agent.start();
    }
    director.cpi.lacking.clear();
    await deleted();
    const { task } = await director.deployments.deploy({ manifest: MANIFEST, wait: true });
    expect(task?.result).to.equal("/deployments/web");
    expect((await director.provide("data", (await instanceOf("db")).instanceId)).state).to.equal(TaskState.DONE);
    director.cpi.calls.length = 0;
    for (const agent of director.agents) agent.calls.length = 0;
  });

  /** Deletes the deployment and clears the CPI, in whatever state the previous test left them. */
  async function deleted(): Promise<void> {
    await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    director.cpi.vms.clear();
    director.cpi.disks.clear();
  }
  const instanceOf = async (group: string) => {
    const { instances } = await director.deployments.listInstances({ deployment: "web" });
    const found = instances.find((instance) => instance.group === group);
    if (found === undefined) throw new Error(`there is no ${group}`);
    return found;
  };
  const scan = async (): Promise<Problem[]> => {
    const { task } = await director.problems.scanDeployment({ deployment: "web", wait: true });
    expect(task?.state).to.equal(TaskState.DONE, task?.result);
    return list();
  };
  const list = async () => (await director.problems.listProblems({ deployment: "web" })).problems;
  const resolve = async (
    ...answers: { readonly problemId: number; readonly resolution: ProblemResolutionType }[]
  ): Promise<Task> =>
    (await director.problems.resolveProblems({ deployment: "web", answers, wait: true })).task as Task;
  const auto = async () =>
    (await director.problems.resolveProblems({ deployment: "web", auto: true, wait: true })).task as Task;
  const state = async () => ({
    instances: (await director.deployments.listInstances({ deployment: "web" })).instances,
    persistent: (await director.deployments.listPersistentDisks({ deployment: "web" })).disks,
    dynamic: (await director.disks.listDynamicDisks({})).disks,
    owed: (await director.disks.listOwedRemovals({})).owedRemovals,
    orphans: (await director.deployments.listPossibleOrphans({})).possibleOrphans,
    vms: [...director.cpi.vms.keys()],
    disks: [...director.cpi.disks.values()].map((disk) => ({ ...disk })),
    links: director.agents.map((agent) => [[...agent.links.keys()], agent.mountedCid]),
  });
  const persistentDisk = async () => {
    const { disks } = await director.deployments.listPersistentDisks({ deployment: "web" });
    const found = disks.find((disk) => disk.orphanTime === undefined);
    if (found === undefined) throw new Error("there is no persistent disk");
    return found;
  };
  const cloudDisk = (diskCid: string | undefined) => {
    const disk = director.cpi.disks.get(diskCid ?? "");
    if (disk === undefined) throw new Error(`there is no ${diskCid}`);
    return disk;
  };
  const killVm = (vmCid: string) => {
    director.cpi.vms.delete(vmCid);
    for (const disk of director.cpi.disks.values()) if (disk.vmCid === vmCid) disk.vmCid = "";
  };
  const agentOf = async (group: string) => director.agent((await instanceOf(group)).agentId);
  const data = async () => (await director.disks.getDynamicDisk({ diskName: "data" })).disk;

  /** Adds a VM without a record to the CPI. */
  function strange(vmCid: string): void {
    const [vm] = director.cpi.vms.values();
    if (vm === undefined) throw new Error("there is no VM");
    const request = { ...vm.request, agentId: "stranger" };
    director.cpi.vms.set(vmCid, { ...vm, vmCid, request, agentId: "stranger" });
  }

  it("a VM was killed by hand -> auto makes another with its disk, and the next scan finds nothing", async () => {
    const before = await instanceOf("db");
    const disk = await persistentDisk();
    killVm(before.vmCid);
    const [problem] = await scan();
    expect(problem?.description).to.contain(`vm \`${before.vmCid}\` of db/${before.instanceId} is gone`);
    const task = await auto();
    expect(task).to.include({ state: TaskState.DONE, result: `missing_vm (${problem?.problemId}): recreate_vm: done` });
    const now = await instanceOf("db");
    expect(now).to.include({ instanceId: before.instanceId, vmState: VmState.RUNNING });
    expect(now.vmCid).not.to.equal(before.vmCid);
    expect(await persistentDisk()).to.include({
      diskCid: disk.diskCid,
      vmCid: now.vmCid,
      state: PersistentDiskState.MOUNTED,
    });
    expect(await list()).to.deep.equal([]);
    expect(await scan()).to.deep.equal([]);
    expect((await director.provide("data", now.instanceId)).state).to.equal(TaskState.DONE);
  });

  it("a problem that no longer exists -> left alone, with a note", async () => {
    const agent = await agentOf("app");
    await agent.stop();
    const [problem] = await scan();
    await agent.start();
    const before = await state();
    const task = await resolve({ problemId: problem?.problemId ?? 0, resolution: ProblemResolutionType.RECREATE_VM });
    expect(task.state).to.equal(TaskState.DONE);
    expect(task.result).to.match(/^unresponsive_agent \(\d+\): the problem no longer exists: nothing was done$/);
    expect(await state()).to.deep.equal(before);
    expect(await list()).to.deep.equal([]);
  });

  const MENDED: [string, () => Promise<void>, keyof typeof ProblemResolutionType][] = [
    ["an agent is silent, and its VM rebooted", async () => silentUntil("app", "rebootVm"), "REBOOT_VM"],
    ["an agent is silent, and its VM is recreated", async () => silentUntil("app", "createVm"), "RECREATE_VM"],
    [
      "a disk is where it should not be",
      async () => {
        const { vmCid } = await instanceOf("app");
        cloudDisk((await data())?.diskCid).vmCid = vmCid;
        cloudDisk((await persistentDisk()).diskCid).vmCid = vmCid;
      },
      "REATTACH_DISK",
    ],
    [
      "a detached disk is attached",
      async () => {
        await director.detach("data");
        cloudDisk((await data())?.diskCid).vmCid = (await instanceOf("app")).vmCid;
      },
      "DETACH_DISK",
    ],
    [
      "a disk is not mounted",
      async () => {
        (await agentOf("db")).mountedCid = undefined;
      },
      "REATTACH_DISK",
    ],
    ["a link is missing", async () => (await agentOf("db")).links.clear(), "ADD_LINK"],
    [
      "a link is too many",
      async () => void (await agentOf("app")).links.set((await data())?.diskCid ?? "", {}),
      "REMOVE_LINK",
    ],
    ["a VM without a record", async () => strange("vm-stranger"), "DELETE_VM"],
  ];
  for (const [what, harm, resolution] of MENDED)
    it(`${what} -> ${resolution.toLowerCase()}, and a scan finds nothing`, async () => {
      await harm();
      const before = await state();
      director.cpi.calls.length = 0;
      for (const agent of director.agents) agent.calls.length = 0;
      const found = await scan();
      expect(found).not.to.be.empty;
      expect(await state()).to.deep.equal(before, "a scan changes nothing");
      expect(director.cpi.calls).to.deep.equal([]);
      expect(director.agents.flatMap((agent) => agent.calls).filter((call) => !call.startsWith("list"))).to.be.empty;
      const task = await resolve(
        ...found.map(({ problemId }) => ({ problemId, resolution: ProblemResolutionType[resolution] })),
      );
      expect(task.state).to.equal(TaskState.DONE, task.result);
      expect(await scan()).to.deep.equal([]);
      for (const { vmCid, diskCid } of (await state()).dynamic) expect(cloudDisk(diskCid).vmCid).to.equal(vmCid);
    });

  /** Stops the group's agent until the CPI method has been called. */
  async function silentUntil(group: string, method: "rebootVm" | "createVm"): Promise<void> {
    const agent = await agentOf(group);
    await agent.stop();
    const gate = director.cpi.gate(method, "after");
    void gate.reached.then(async () => {
      await agent.start();
      gate.release();
    });
  }

  it("VM and disk references -> deleted, with listed possible orphans; a deploy creates new objects", async function () {
    leaveToVerify(this);
    await (await agentOf("app")).stop();
    const { vmCid } = await instanceOf("app");
    director.cpi.disks.clear();
    const found = await scan();
    const task = await resolve(
      ...found.map(({ problemId, type }) => ({
        problemId,
        resolution:
          type === ProblemType.MISSING_DISK
            ? ProblemResolutionType.DELETE_DISK_REFERENCE
            : ProblemResolutionType.DELETE_VM_REFERENCE,
      })),
    );
    expect(task.state).to.equal(TaskState.DONE, task.result);
    expect(director.cpi.vms.has(vmCid)).to.equal(true);
    expect(await instanceOf("app")).to.include({ vmCid: "", vmState: VmState.NONE });
    await rejection(director.disks.getDynamicDisk({ diskName: "data" }), NotFoundError, "data");
    const { orphans } = await state();
    const diskCid = found.find(({ description }) => description.includes("`data`"))?.diskCid;
    expect(orphans.map(({ kind, cid, reason }) => `${kind} ${cid}: ${reason}`)).to.have.members([
      `ORPHAN_KIND_DISK ${diskCid}: forgotten, since its CPI did not know it`,
      `ORPHAN_KIND_VM ${vmCid}: forgotten without being deleted`,
    ]);
    for (const { token } of orphans) await director.deployments.forgetPossibleOrphan({ token });
    expect((await director.deployments.deploy({ manifest: MANIFEST, wait: true })).task?.state).to.equal(
      TaskState.DONE,
    );
    const left = (await scan()).map((problem) => `${problem.type} ${problem.vmCid}`);
    expect(left).to.deep.equal([`PROBLEM_TYPE_UNKNOWN_VM ${vmCid}`]);
  });

  it("hard stopped or ignored instances -> no problem; ignored after the scan -> no resolution", async () => {
    const select = (group: string) => ({ deployment: "web", group, instance: "" });
    const stopped = await director.lifecycle.stop({ selection: select("app"), hard: true, wait: true });
    expect(stopped.task?.state).to.equal(TaskState.DONE, stopped.task?.result);
    killVm((await instanceOf("db")).vmCid);
    const [problem, ...more] = await scan();
    expect([problem?.type, more]).to.deep.equal([ProblemType.MISSING_VM, []]);
    await director.lifecycle.ignore({ selection: select("db") });
    const before = await state();
    const task = await auto();
    expect(task.state).to.equal(TaskState.ERROR);
    expect(task.result).to.contain(" is ignored: unignore it first");
    expect(await state()).to.deep.equal(before);
    expect(await scan()).to.deep.equal([]);
    await director.lifecycle.unignore({ selection: select("db") });
  });

  it("one resolution fails -> the others are done, the task fails, and the problem stays with the reason", async function () {
    leaveToVerify(this);
    killVm((await instanceOf("db")).vmCid);
    await (await agentOf("app")).stop();
    director.cpi.failNext("rebootVm", new InvalidStateError("the plug is stuck"));
    const found = await scan();
    const task = await resolve(
      ...found.map(({ problemId, type }) => ({
        problemId,
        resolution:
          type === ProblemType.MISSING_VM ? ProblemResolutionType.UNSPECIFIED : ProblemResolutionType.REBOOT_VM,
      })),
    );
    expect(task.state).to.equal(TaskState.ERROR);
    expect(task.result).to.match(/^1 of 2 problems were not resolved\n/);
    expect(task.result).to.contain("recreate_vm: done");
    const [left, ...more] = await list();
    expect(more).to.deep.equal([]);
    expect(left?.type).to.equal(ProblemType.UNRESPONSIVE_AGENT);
    expect(left?.lastError).to.equal("reboot_vm: CPI rebootVm failed: the plug is stuck");
  });

  it("a CPI or agent that cannot report -> named by the scan, and no finding is guessed", async () => {
    for (const method of ["hasVm", "hasDisk", "getDisks", "listVms"] as const) director.cpi.lacking.add(method);
    killVm((await instanceOf("db")).vmCid);
    const { task } = await director.problems.scanDeployment({ deployment: "web", wait: true });
    expect(task?.result).to.match(/^0 problems; not seen: /);
    for (const unseen of [
      "has_vm of the default CPI",
      "has_disk of",
      "get_disks of",
      "list_vms of",
      "disks that are not recorded",
    ])
      expect(task?.result).to.contain(unseen);
  });

  it("a disk during a provide -> no problem, and its VM is reported as not inspected; later -> inspected", async () => {
    const { instanceId } = await instanceOf("app");
    const gate = director.cpi.gate("setDiskMetadata", "before");
    const providing = director.provide("late", instanceId, { metadata: { owner: "ann" } });
    await gate.reached;
    const { task } = await director.problems.scanDeployment({ deployment: "web", wait: true });
    expect(task?.result).to.match(/^0 problems; not seen: app\/.* was locked by task \d+ during the whole scan/);
    expect(await list()).to.deep.equal([]);
    gate.release();
    expect((await providing).state).to.equal(TaskState.DONE);
    expect(await scan()).to.deep.equal([]);
    await director.detach("late");
    await director.delete("late");
  });

  it("answers to unknown problems -> refused", async () => {
    killVm((await instanceOf("db")).vmCid);
    const [problem] = await scan();
    const problemId = problem?.problemId ?? 0;
    await rejection(
      resolve({ problemId: problemId + 1, resolution: ProblemResolutionType.IGNORE }),
      NotFoundError,
      "has no problem",
    );
    await rejection(
      resolve({ problemId: -1, resolution: ProblemResolutionType.IGNORE }),
      NotFoundError,
      "has no problem",
    );
    await rejection(
      resolve({ problemId, resolution: ProblemResolutionType.ADD_LINK }),
      InvalidArgumentError,
      "has no resolution `add_link`",
    );
    await rejection(
      resolve({ problemId, resolution: ProblemResolutionType.UNRECOGNIZED }),
      InvalidArgumentError,
      "does not know",
    );
    await rejection(resolve(), InvalidArgumentError, "set auto");
    const twice = [1, 2].map(() => ({ problemId, resolution: ProblemResolutionType.IGNORE }));
    await rejection(resolve(...twice), InvalidArgumentError, "twice");
    const nobody = { deployment: "nobody" };
    await rejection(director.problems.scanDeployment(nobody), NotFoundError, "nobody");
    await rejection(director.problems.listProblems(nobody), NotFoundError, "nobody");
    await rejection(director.problems.resolveProblems({ ...nobody, auto: true }), NotFoundError, "nobody");
    expect((await resolve({ problemId, resolution: ProblemResolutionType.IGNORE })).state).to.equal(TaskState.DONE);
    await rejection(resolve({ problemId, resolution: ProblemResolutionType.IGNORE }), NotFoundError, "has no problem");
    expect((await scan()).map((each) => each.problemId)).to.deep.equal([problemId]);
  });
});
