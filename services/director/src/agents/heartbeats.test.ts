import { type Instance, TaskState } from "@diskmesh/api/director";
import { connectNats } from "@diskmesh/mbus";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { TestDirector } from "../testing/test-director.js";

const UPTIME_SECS = 1_000_000;

describe("unsolicited messages of agents", () => {
  let director: TestDirector;
  let instanceId: string;

  before(async () => {
    const waits = { requestTimeoutMs: 2_000, attachTimeoutMs: 15_000, detachTimeoutMs: 500 };
    const agents = { ...waits, unresponsiveAfterMs: 3_000, healthRecordIntervalMs: 100 };
    director = await TestDirector.start({ tuning: { agents } }, { hostIds: ["host-1"] });
    [instanceId] = (await director.deploy("web", 1)) as [string];
    agent().heartbeatIntervalMs = 200;
    agent().heartbeat = beat(UPTIME_SECS);
    await restartAgent();
  });
  after(() => director?.stop());

  const agent = () => director.agent("host-1");
  const beat = (secs: number) => ({
    deployment: "web",
    job: "db",
    index: 0,
    job_state: "running",
    vitals: { load: ["0.1"], uptime: { secs } },
  });

  async function restartAgent(): Promise<void> {
    await agent().stop();
    await agent().start();
  }

  async function listed(): Promise<Instance> {
    const { instances } = await director.deployments.listInstances({ deployment: "web", agentHealth: true });
    return instances[0] as Instance;
  }

  it("a heartbeat is listed with its instance: state, vitals and time", async () => {
    const { agentHealth } = await eventually(async () => {
      const found = await listed();
      expect(found.agentHealth?.jobState).to.equal("running");
      return found;
    });
    expect(agentHealth?.vitals).to.deep.equal({ load: ["0.1"], uptime: { secs: UPTIME_SECS } });
    expect(agentHealth?.lastHeartbeatTime?.getTime()).to.be.closeTo(Date.now(), 60_000);
  });

  it("an agent whose VM has restarted receives its attached disks until it accepts them, and no detached disk", async () => {
    for (const name of ["kept", "gone"])
      expect((await director.provide(name, instanceId)).state).to.equal(TaskState.DONE);
    await director.detach("gone");
    const { disk } = await director.disks.getDynamicDisk({ diskName: "kept" });
    await agent().stop();
    agent().links.clear();
    agent().failureOf.set("add", new Error("the bus is not there yet"));
    agent().heartbeat = beat(5);
    await agent().start();
    await eventually(() => agent().links.size > 0);
    expect(agent().failureOf.size).to.equal(0);
    expect([...agent().links]).to.deep.equal([[disk?.diskCid, disk?.diskHint]]);
  });

  it("alerts and shutdowns become audit events, up to a limit per agent", async () => {
    const tls = director.certs.files("disk-agent-host-1");
    const nats = await connectNats({ servers: [director.nats.address], tls, name: "host-1" });
    await nats.whenConnected(AbortSignal.timeout(30_000));
    const alert = { id: "a-1", severity: 2, title: "web - does not exist", summary: "restart", created_at: 1 };
    nats.publish("hm.agent.alert.host-1", Buffer.from("no json"));
    nats.publish("hm.agent.shutdown.host-1", Buffer.from("null"));
    for (let count = 0; count < 100; count++) nats.publish("hm.agent.alert.host-1", Buffer.from(JSON.stringify(alert)));
    const { vmCid } = await listed();
    const ofVm = async () => (await director.events.listEvents({ objectType: "vm", pageSize: 100 })).events;
    const told = await eventually(async () => {
      const found = (await ofVm()).filter(({ action }) => action === "alert" || action === "shutdown");
      expect(found).to.have.length(10);
      return found;
    });
    const { id, title, summary } = alert;
    expect(told[0]).to.deep.include({ action: "alert", objectName: vmCid, deployment: "web", user: "agent/host-1" });
    expect(told[0]?.context).to.deep.equal({ id, severity: "2", title, summary });
    expect(told.at(-1)).to.deep.include({ action: "shutdown", objectName: vmCid });
    await nats.close();
  });

  it("a silent agent is listed as unresponsive; the next director knows its last heartbeat", async () => {
    await agent().stop();
    await eventually(async () => (await listed()).agentHealth?.jobState === "unresponsive agent");
    const before = (await listed()).agentHealth;
    await director.process.kill();
    await director.process.start();
    await eventually(async () => (await listed()).agentHealth?.vitals?.uptime !== undefined);
    const after = (await listed()).agentHealth;
    expect(after?.vitals).to.deep.equal(before?.vitals);
    // A stopped agent keeps the time of its last recorded heartbeat.
    expect(after?.lastHeartbeatTime?.getTime()).to.be.closeTo(before?.lastHeartbeatTime?.getTime() ?? 0, 10_000);
    await agent().start();
    await eventually(async () => (await listed()).agentHealth?.jobState === "running");
  });
});
