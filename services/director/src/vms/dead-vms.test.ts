import { type Task, TaskState, TaskType, VmState } from "@diskmesh/api/director";
import { InvalidStateError, UnavailableError } from "@diskmesh/domain";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { type ResurrectingDirector, startResurrecting } from "../testing/resurrecting-director.js";

const HOST_IDS = Array.from({ length: 7 }, (_, index) => `host-${index + 1}`);
const SILENT_AFTER_MS = 2_500;
/** Far above the silence limit, so that tests on a busy machine see a silent VM before it counts as dead. */
const DEAD_AFTER_MS = 12_000;

const manifest = (deployment: string, instances: number) => `
name: ${deployment}
update: {max_in_flight: 1, canaries: 0, canary_watch_time: 1-60000, update_watch_time: 1-60000}
instance_groups:
- {name: db, instances: ${instances}, azs: [z1]}
`;

describe("VMs that were silent for so long that they count as dead", () => {
  let director: ResurrectingDirector["director"];
  let resurrection: ResurrectingDirector["resurrection"];

  before(async function () {
    leaveToVerify(this);
    ({ director, resurrection } = await startResurrecting(
      { enabled: true, silentAfterMs: SILENT_AFTER_MS, deadAfterMs: DEAD_AFTER_MS },
      HOST_IDS,
    ));
    await director.deploy("elsewhere", 1);
  });
  after(async () => {
    resurrection?.close();
    await director?.stop();
  });

  const switchTo = (enabled: boolean) => resurrection.updateResurrection({ wanted: { enabled } });

  async function deployed(deployment: string, instances: number) {
    expect((await director.deployManifest(manifest(deployment, instances))).state).to.equal(TaskState.DONE);
    return () => director.deployments.listInstances({ deployment }).then((found) => found.instances);
  }

  const healthOf = async (deployment: string) =>
    (await director.deployments.listInstances({ deployment, agentHealth: true })).instances.map(
      ({ agentHealth }) => agentHealth,
    );

  /**
   * Stops the agents after each has sent a heartbeat, because the silence of an agent without a heartbeat is unknown.
   */
  async function stopAgents(deployment: string, agentIds: readonly string[]): Promise<void> {
    await eventually(async () => {
      for (const health of await healthOf(deployment)) expect(health?.lastHeartbeatTime).not.to.equal(undefined);
    });
    await Promise.all(agentIds.map((agentId) => director.agent(agentId).stop()));
  }

  const resurrectionsOf = async (deployment: string): Promise<Task[]> =>
    (await director.tasks.listTasks({ pageSize: 100 })).tasks.filter(
      (task) => task.type === TaskType.RESURRECT_INSTANCES && task.deployment === deployment,
    );

  it("are deleted although the CPI reports them, and recreated within the concurrency of the update block", async () => {
    const instances = await deployed("api", 2);
    const before = await instances();
    // Each deleteVm call waits a while for a second concurrent call.
    director.cpi.awaitedAtOnce.set("deleteVm", 2);
    await switchTo(false);
    await stopAgents(
      "api",
      before.map(({ agentId }) => agentId),
    );
    await eventually(async () => {
      for (const health of await healthOf("api"))
        expect(Date.now() - (health?.lastHeartbeatTime?.getTime() ?? Date.now())).to.be.above(DEAD_AFTER_MS);
    });
    // Both VMs are due at the same moment, and one task recreates them.
    await switchTo(true);
    // A new VM may be on a former VM's host, so its agent starts once the former VM is deleted.
    const starts = before.map(async ({ vmCid, agentId }) => {
      await eventually(() => !director.cpi.vms.has(vmCid));
      await director.agent(agentId).start();
    });
    await Promise.all(starts);
    await eventually(async () => {
      const now = await instances();
      expect(now.map(({ vmState }) => vmState)).to.deep.equal([VmState.RUNNING, VmState.RUNNING]);
      for (const { vmCid } of before) expect(now.map((each) => each.vmCid)).not.to.include(vmCid);
    });
    expect(director.cpi.mostAtOnce.get("deleteVm")).to.equal(1);
    director.cpi.awaitedAtOnce.clear();
  });

  const unknown = () => new UnavailableError("the line is dead", { outcome: "unknown" });
  const refused = () => new InvalidStateError("the moon is full");
  const STOPS: [what: string, method: "hasVm" | "deleteVm", error: () => Error][] = [
    ["whether they are gone is not known", "hasVm", unknown],
    ["whether they are gone cannot be said", "hasVm", refused],
    ["they cannot be deleted", "deleteVm", refused],
  ];
  for (const [index, [what, method, error]] of STOPS.entries())
    it(`are not recreated as long as ${what}`, async () => {
      const deployment = `web-${index}`;
      const instances = await deployed(deployment, 1);
      const [{ agentId, vmCid } = { agentId: "", vmCid: "" }] = await instances();
      const created = () => director.cpi.calls.filter((call) => call.startsWith("createVm")).length;
      const createdBefore = created();
      director.cpi.failNext(method, error());
      await stopAgents(deployment, [agentId]);
      const [task] = await eventually(async () => {
        const ended = (await resurrectionsOf(deployment)).filter(({ state }) => state === TaskState.ERROR);
        expect(ended).to.have.length(1);
        return ended;
      });
      expect(task?.result).to.include(error().message);
      expect(director.cpi.vms.has(vmCid)).to.equal(true);
      expect(created()).to.equal(createdBefore);
      await director.deployments.deleteDeployment({ deployment, wait: true, force: true });
      await director.agent(agentId).start();
    });
});
