import { TaskState, TaskType, VmState } from "@diskmesh/api/director";
import { InvalidArgumentError, NotFoundError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { type ResurrectingDirector, startResurrecting } from "../testing/resurrecting-director.js";

/**
 * VMs per deployment. There is one host more than VMs. The mass-outage guard does not count "api" as a group, because
 * the deployment has fewer than five VMs.
 */
const INSTANCES = { web: 5, api: 3 } as const;
const VMS = INSTANCES.web + INSTANCES.api;
const HOST_IDS = Array.from({ length: VMS + 1 }, (_, index) => `host-${index + 1}`);
const SILENT_AFTER_MS = 5_000;

describe("VMs that are gone", () => {
  let director: ResurrectingDirector["director"];
  let resurrection: ResurrectingDirector["resurrection"];

  before(async () => {
    ({ director, resurrection } = await startResurrecting(
      { silentAfterMs: SILENT_AFTER_MS, deadAfterMs: 3_600_000 },
      HOST_IDS,
    ));
    for (const [deployment, count] of Object.entries(INSTANCES)) await director.deploy(deployment, count);
  });
  after(async () => {
    resurrection?.close();
    await director?.stop();
  });

  const instances = async (deployment: keyof typeof INSTANCES = "web") =>
    (await director.deployments.listInstances({ deployment })).instances;
  const areHeardSince = async (sinceMs: number) => {
    for (const deployment of Object.keys(INSTANCES)) {
      const listed = await director.deployments.listInstances({ deployment, agentHealth: true });
      for (const { agentHealth } of listed.instances)
        expect(agentHealth?.lastHeartbeatTime?.getTime() ?? 0).to.be.at.least(sinceMs);
    }
  };
  const silentVms = async () => (await resurrection.getResurrection({})).silentVms;
  const switchTo = (enabled: boolean, deployment = "", group = "") =>
    resurrection.updateResurrection({ wanted: { enabled, deployment, group } });
  const resurrections = async () => {
    const { tasks } = await director.tasks.listTasks({ pageSize: 100 });
    return tasks.filter(({ type }) => type === TaskType.RESURRECT_INSTANCES);
  };

  it("are not recreated until resurrection is switched on", async () => {
    const [victim] = await instances();
    const agent = director.agent(victim?.agentId ?? "");
    await agent.stop();
    director.cpi.vms.delete(victim?.vmCid ?? "");
    expect(await resurrection.getResurrection({})).to.deep.equal({ enabled: false, switches: [], silentVms: [] });
    await switchTo(true);
    // The test CPI places the new VM on the victim's host, so the victim's agent serves the new VM.
    await eventually(() => director.cpi.vms.size === VMS);
    await agent.start();
    await eventually(async () => (await instances()).every(({ vmState }) => vmState === VmState.RUNNING));
    const now = (await instances()).find(({ instanceId }) => instanceId === victim?.instanceId);
    expect(now?.vmCid).not.to.equal(victim?.vmCid);
    expect(director.cpi.vms.has(now?.vmCid ?? "")).to.equal(true);
    const [task] = await resurrections();
    expect((await director.ended(task?.taskId ?? 0)).state).to.equal(TaskState.DONE);
  });

  const CROWDS: [what: string, silent: Record<keyof typeof INSTANCES, number>, because: string][] = [
    ["of the deployment", { web: 3, api: 0 }, "more than half of its deployment's agents are silent"],
    ["of all, but of no deployment", { web: 2, api: 3 }, "more than half of all agents are silent"],
  ];
  for (const [what, { web, api }, because] of CROWDS)
    it(`are not recreated when more than half ${what} fall silent at once, and the reason is listed`, async () => {
      const all = async () => [...(await instances()), ...(await instances("api"))];
      const listed = async () => (await all()).map(({ vmCid }) => vmCid);
      const [before, begun] = [await listed(), (await resurrections()).length];
      const { vms } = director.cpi;
      const silent = [...(await instances()).slice(0, web), ...(await instances("api")).slice(0, api)];
      const gone = silent.flatMap(({ vmCid }) => vms.get(vmCid) ?? []);
      const victims = gone.map(({ agentId }) => director.agent(agentId));
      await Promise.all(victims.map((victim) => victim.stop()));
      for (const { vmCid } of gone) vms.delete(vmCid);
      await eventually(async () => {
        const reasons = (await silentVms()).map(({ heldBecause }) => heldBecause);
        expect(reasons).to.have.length(web + api);
        for (const reason of reasons) expect(reason).to.include(because);
      });
      // Resurrection is off while the agents return one by one, because the guard would not protect the last few.
      await switchTo(false);
      for (const vm of gone) vms.set(vm.vmCid, vm);
      const backAtMs = Date.now();
      await Promise.all(victims.map((victim) => victim.start()));
      await eventually(() => areHeardSince(backAtMs));
      await switchTo(true);
      await eventually(async () => (await silentVms()).length === 0);
      expect(await listed()).to.deep.equal(before);
      expect(await resurrections()).to.have.length(begun);
    });

  it("are not recreated while the outcome of an attach is unknown, and are once the disk is detached", async () => {
    const { instanceId = "", agentId = "", vmCid = "" } = (await instances())[0] ?? {};
    const begun = (await resurrections()).length;
    const gate = director.cpi.gate("attachDisk", "after");
    const diskName = "unsure";
    const { task } = await director.disks.provideDynamicDisk({
      diskName,
      instanceId,
      diskPoolName: "fast",
      sizeBytes: 1,
    });
    await gate.reached;
    await director.tasks.cancelTask({ taskId: task?.taskId ?? 0 });
    expect((await director.ended(task?.taskId ?? 0)).state).to.equal(TaskState.CANCELLED);
    const agent = director.agent(agentId);
    await agent.stop();
    director.cpi.vms.delete(vmCid);
    await eventually(async () => {
      const held = (await silentVms()).map((silent) => [silent.vmCid, silent.heldBecause]);
      const because = "it is not known whether a disk is attached to it: detach the disk, or scan";
      expect(held).to.deep.equal([[vmCid, because]]);
    });
    expect(await resurrections()).to.have.length(begun);
    expect((await director.detach(diskName)).state).to.equal(TaskState.DONE);
    await eventually(() => director.cpi.vms.size === VMS);
    await agent.start();
    await eventually(async () => {
      const now = (await instances()).find((each) => each.instanceId === instanceId);
      expect(now?.vmState).to.equal(VmState.RUNNING);
      expect(now?.vmCid).not.to.equal(vmCid);
    });
  });

  it("are not recreated while the CPI reports them or a switch excludes them", async () => {
    const before = await instances();
    const victim = before[1];
    const agent = director.agent(victim?.agentId ?? "");
    await agent.stop();
    const said = `its CPI does not say that vm ${victim?.vmCid} is gone`;
    await eventually(async () => {
      const ended = (await resurrections()).filter(({ state }) => state === TaskState.DONE);
      return ended.some(({ result }) => result.includes(said));
    });
    await switchTo(false, "web", "db");
    expect(await silentVms()).to.deep.equal([]);
    const { switches, enabled } = await resurrection.getResurrection({});
    expect({ switches, enabled }).to.deep.equal({
      enabled: true,
      switches: [{ deployment: "web", group: "db", enabled: false }],
    });
    await agent.start();
    expect((await instances())[1]?.vmCid).to.equal(victim?.vmCid);
  });

  it("are not recreated while a config of type resurrection disables it", async () => {
    await switchTo(true, "web", "db");
    const victim = (await instances())[2];
    const agent = director.agent(victim?.agentId ?? "");
    const silent = async () => (await silentVms()).map(({ instanceId }) => instanceId);
    const isSilent = () => eventually(async () => expect(await silent()).to.deep.equal([victim?.instanceId]));
    await agent.stop();
    await isSilent();
    const type = "resurrection";
    const rule = (deployment: string) => `rules: [{enabled: false, include: {deployments: [${deployment}]}}]\n`;
    await director.configs.updateConfig({ type, name: "all-of-api", content: rule("api") });
    expect(await silent()).to.deep.equal([victim?.instanceId]);
    await director.configs.updateConfig({ type, name: "all-of-web", content: rule("web") });
    expect(await silent()).to.deep.equal([]);
    await director.configs.deleteConfig({ type, name: "all-of-web" });
    await isSilent();
    await agent.start();
    await eventually(async () => expect(await silent()).to.deep.equal([]));
    await rejection(director.configs.updateConfig({ type, content: "rules: 7" }), InvalidArgumentError, "rules");
    await switchTo(false, "web", "db");
  });

  it("the switch is durable, and refuses unknown names", async () => {
    await director.process.kill();
    await director.process.start();
    const { enabled, switches } = await eventually(() => resurrection.getResurrection({}));
    expect([enabled, switches.length]).to.deep.equal([true, 1]);
    await rejection(switchTo(true, "nowhere"), NotFoundError, "nowhere");
    await rejection(switchTo(true, "", "db"), InvalidArgumentError, "deployment");
    await rejection(switchTo(true, "a b"), InvalidArgumentError, "deployment");
    await rejection(resurrection.updateResurrection({}), InvalidArgumentError, "wanted");
  });
});
