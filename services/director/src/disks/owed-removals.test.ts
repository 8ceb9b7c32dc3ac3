import { setTimeout as sleep } from "node:timers/promises";
import { TaskState, TaskType } from "@diskmesh/api/director";
import { expect } from "chai";
import { AgentProcess } from "../testing/agent-process.js";
import { TestDirector } from "../testing/test-director.js";

/** These agents behave like BOSH's: they queue adds and run removals at once. */
describe("pending detach notifications (owed removals)", () => {
  let director: TestDirector;
  let first: string;
  let second: string;
  let nextDisk = 0;
  let name: string;

  before(async () => {
    const agents = { requestTimeoutMs: 2_000, attachTimeoutMs: 5_000, detachTimeoutMs: 1_500 };
    director = await TestDirector.start({ agents: { readyTimeoutMs: 30_000 }, tuning: { agents } });
    [first, second] = (await director.deploy("web", 2)) as [string, string];
  });
  after(() => director?.stop());
  beforeEach(() => {
    name = `disk-${++nextDisk}`;
    for (const { calls } of director.agents) calls.length = 0;
  });

  const agent = (index: 0 | 1 = 0) => director.agents[index] as (typeof director.agents)[0];
  const owed = async () => (await director.disks.listOwedRemovals({})).owedRemovals;
  const diskOf = async (diskName = name) => (await director.disks.getDynamicDisk({ diskName })).disk;
  const provided = async (diskName = name, instanceId = first) => {
    const task = await director.provide(diskName, instanceId);
    expect(task.state).to.equal(TaskState.DONE, task.result);
    return (await diskOf(diskName))?.diskCid ?? "";
  };
  const detached = async (diskName = name) => {
    expect((await director.detach(diskName)).state).to.equal(TaskState.DONE);
  };
  const settled = async () => {
    while ((await owed()).length > 0) await sleep(50);
  };
  /** Detaches the disk while the agent is stopped, so that the agent is not notified. */
  const detachedUntold = async (): Promise<string> => {
    const cid = await provided();
    await agent().stop();
    await detached();
    return cid;
  };

  it("a detach while the agent is away -> recorded by agent and attachment, and sent once the agent is back", async () => {
    const cid = await provided();
    const before = await diskOf();
    await agent().stop();
    await detached();
    const [removal, more] = await owed();
    expect(more).to.equal(undefined);
    const { attachmentId, vmCid } = before ?? {};
    expect(removal).to.include({
      agentId: "host-1",
      attachmentId,
      vmCid,
      instanceId: first,
      diskName: name,
      diskCid: cid,
    });
    expect(agent().links.has(cid)).to.equal(true);
    await agent().start();
    await settled();
    expect(agent().links.has(cid)).to.equal(false);
    const { tasks } = await director.tasks.listTasks({});
    const task = tasks.find(({ type }) => type === TaskType.SETTLE_OWED_REMOVALS);
    expect(task).to.include({ user: "director", deployment: "web" });
    expect((await director.ended(task?.taskId ?? 0)).result).to.equal(
      `agent \`host-1\` has forgotten disk \`${name}\``,
    );
  });

  it("the agent refuses -> stays recorded, and is sent again after the agent's next message", async () => {
    const cid = await provided();
    await agent().stop();
    agent().heartbeatIntervalMs = 200;
    await agent().start();
    agent().failures.push(new Error("busy"));
    await detached();
    await settled();
    expect(agent().links.has(cid)).to.equal(false);
    agent().heartbeatIntervalMs = 60_000;
  });

  it("the director is killed meanwhile -> the next director sends the notification", async () => {
    const cid = await detachedUntold();
    await director.process.kill();
    await director.process.start();
    expect(await owed()).to.have.lengthOf(1);
    await agent().start();
    await settled();
    expect(agent().links.has(cid)).to.equal(false);
  });

  it("the agent returns while no director listens -> the next director pings it and sends the notification", async () => {
    const cid = await detachedUntold();
    await director.process.kill();
    await agent().start();
    await director.process.start();
    await settled();
    expect(agent().links.has(cid)).to.equal(false);
  });

  it("until it is settled -> the VM gets no other disk, and other VMs do; then it does", async () => {
    const cid = await detachedUntold();
    const refused = await director.provide("other", first);
    expect(refused.state).to.equal(TaskState.ERROR);
    expect(refused.result).to.contain("was not attached to").and.to.contain("ListOwedRemovals");
    expect(await diskOf("other")).to.include({ vmCid: "", instanceId: "" });
    await provided(name, second);
    await agent().start();
    await provided("other");
    expect(agent().links.has(cid)).to.equal(false);
    expect(agent(1).links.has(cid)).to.equal(true);
    await settled();
    for (const each of ["other", name]) await detached(each);
  });

  it("the same disk to the same VM again -> the notification is deleted, and the link stays", async () => {
    const cid = await detachedUntold();
    const untold = await director.provide(name, first);
    expect(untold.result).to.contain("the vm's agent was not notified");
    expect(await owed()).to.deep.equal([]);
    await agent().start();
    await provided();
    // The add may arrive twice: a heartbeat off its interval makes the director treat the agent as restarted.
    expect(agent().calls.length).to.be.above(1);
    expect(new Set(agent().calls)).to.deep.equal(new Set([`add ${cid}`]));
    expect(agent().links.has(cid)).to.equal(true);
    await detached();
    expect(agent().links.has(cid)).to.equal(false);
  });

  it("an add is still queued when the disk is detached -> the link that it creates later is removed", async () => {
    await director.provide(name, second);
    const cid = (await diskOf())?.diskCid ?? "";
    await detached();
    agent().heartbeatIntervalMs = 200;
    await agent().stop();
    await agent().start();
    agent().calls.length = 0;
    const gate = agent().gate();
    expect((await director.provide(name, first)).result).to.contain("the vm's agent was not notified");
    await detached();
    expect(agent().calls).to.deep.equal([`add ${cid}`, `remove ${cid}`]);
    expect(await owed()).to.have.lengthOf(1);
    gate.release();
    await settled();
    expect(agent().links.has(cid)).to.equal(false);
    expect(agent().calls.at(-1)).to.equal(`remove ${cid}`);
    agent().heartbeatIntervalMs = 60_000;
  });

  it("the agent's process is paused during a detach, an add before it -> no link once it resumes", async () => {
    await agent().stop();
    const stopped = await AgentProcess.start("host-1", director.nats.address, director.certs, { addDelayMs: 300 });
    try {
      const cid = await provided();
      stopped.signal("SIGSTOP");
      expect((await director.provide(name, first)).result).to.contain("the vm's agent was not notified");
      await detached();
      await provided(name, second);
      expect(await owed()).to.have.lengthOf(1);
      stopped.signal("SIGCONT");
      await settled();
      const { links, calls } = await stopped.report();
      expect(links).to.deep.equal([]);
      expect(calls.at(-1)).to.equal(`remove ${cid}`);
      expect(agent(1).links.has(cid)).to.equal(true);
      await detached();
    } finally {
      await stopped.kill();
      await agent().start();
    }
  });

  it("the VM is deleted -> its notifications are deleted", async () => {
    await detachedUntold();
    await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    expect(await owed()).to.deep.equal([]);
  });
});
