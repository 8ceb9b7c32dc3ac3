import { ResurrectionServiceDefinition, TaskState, TaskType } from "@diskmesh/api/director";
import { type Client, createClient } from "@diskmesh/rpc";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { CLOUD_CONFIG, TestDirector } from "../testing/test-director.js";
import { type VmAgent, withAgents } from "../testing/vm-agents.js";

const MANIFEST = "name: web\ninstance_groups:\n- {name: db, instances: 1, azs: [z1], persistent_disk: 64}\n";

describe("a VM that its CPI reports gone, whose agent has a fixed id", () => {
  let director: TestDirector;
  let resurrection: Client<typeof ResurrectionServiceDefinition>;
  const agents: VmAgent[] = [];

  before(async () => {
    const times = { checkIntervalMs: 100, silentAfterMs: 5_000, deadAfterMs: 3_600_000 };
    const change = { resurrection: { enabled: true }, tuning: { resurrection: times } };
    director = await TestDirector.start(change, { hostIds: [], ownCertificates: true });
    resurrection = createClient(ResurrectionServiceDefinition, {
      address: director.address,
      tls: director.certs.files("operator"),
      serverRole: "director",
      defaultDeadlineMs: 20_000,
    });
    await director.configs.updateConfig({ type: "cloud", content: CLOUD_CONFIG });
    agents.push(...(await withAgents(director, 1, () => director.deployManifest(MANIFEST))));
  });
  after(async () => {
    resurrection?.close();
    await Promise.all(agents.map(({ agent }) => agent.stop()));
    await director?.stop();
  });

  it("is recreated without a call to the agent, and no alert is raised meanwhile", async () => {
    const only = async () => (await director.deployments.listInstances({ deployment: "web" })).instances[0];
    const { instanceId = "", vmCid = "" } = (await only()) ?? {};
    expect((await director.provide("kept", instanceId)).state).to.equal(TaskState.DONE);
    const { agent } = agents[0] as VmAgent;
    // The agent answers calls but sends no heartbeats, so the director counts it as silent.
    agent.heartbeatIntervalMs = 3_600_000;
    await agent.stop();
    await agent.start();
    agent.calls.length = 0;
    const gate = director.cpi.gate("detachDisk", "before");
    director.cpi.vms.delete(vmCid);
    await gate.reached;
    // The resurrector checks every 100 ms and must never report a reason against the recreation.
    for (const untilMs = Date.now() + 1_000; Date.now() < untilMs; )
      for (const silent of (await resurrection.getResurrection({})).silentVms) expect(silent.heldBecause).to.equal("");
    expect(director.process.logs).not.to.contain("not_resurrected");
    agents.push(...(await withAgents(director, 1, async () => gate.release())));
    await eventually(async () => {
      const now = await only();
      expect(now?.vmState).to.equal("VM_STATE_RUNNING");
      expect(now?.vmCid).not.to.equal(vmCid);
    });
    expect(agent.calls).to.deep.equal([]);
    expect((await director.disks.listOwedRemovals({})).owedRemovals).to.deep.equal([]);
    const { tasks } = await director.tasks.listTasks({ pageSize: 100 });
    const taskId = tasks.find(({ type }) => type === TaskType.RESURRECT_INSTANCES)?.taskId ?? 0;
    const said = (await director.eventTexts(taskId)).filter((line) => /to forget|all the same/.test(line));
    expect(said).to.deep.equal([]);
  });
});
