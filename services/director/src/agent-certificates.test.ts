import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { connectNats, type NatsConnection } from "@diskmesh/mbus";
import { eventually, type TestCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { TestDirector } from "./testing/test-director.js";
import { certOf, deployWithAgents, type VmAgent } from "./testing/vm-agents.js";

describe("agents with certificates of their own, in a configuration of NATS that is written", () => {
  let director: TestDirector;
  let agents: VmAgent[];
  const connections: NatsConnection[] = [];

  before(async () => {
    director = await TestDirector.start({}, { hostIds: [], natsUsers: "written" });
    agents = await deployWithAgents(director, "web", 2);
  });
  after(async () => {
    await Promise.all(connections.map((connection) => connection.close()));
    await Promise.all(agents.map(({ agent }) => agent.stop()));
    await director?.stop();
  });

  /** Connects as the holder of a certificate, and notes what NATS refuses it, e.g. "publish agent.x". */
  async function connectAs(files: ReturnType<TestCertificates["files"]>) {
    const refused: string[] = [];
    const failures: string[] = [];
    const note = (fields: object, message: string) => {
      const { operation, subject } = fields as { operation?: string; subject?: string };
      if (message === "NATS refused") refused.push(`${operation} ${subject?.replaceAll('"', "")}`);
      if (message === "cannot connect to NATS") failures.push(message);
    };
    const connection = await connectNats({
      servers: [director.nats.address],
      tls: files,
      name: "test",
      reconnect: { stepMs: 50, maxMs: 200 },
      log: { debug: note, info: note, warn: note, error: note },
    });
    connections.push(connection);
    return { connection, refused, failures };
  }

  it("no key is stored or shown: neither in state, nor in logs, nor in what tasks put out", async () => {
    const keys = agents.map(({ vm }) => certOf(vm).private_key.split("\n")[1] as string);
    const { tasks } = await director.tasks.listTasks({});
    const outputs = await Promise.all(
      tasks.flatMap(({ taskId }) =>
        ["event", "debug", "cpi"].map(async (type) =>
          JSON.stringify((await director.tasks.getTaskOutput({ taskId, type }).catch(() => ({}))) ?? ""),
        ),
      ),
    );
    const folder = join(director.folder, "state");
    const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((file) => file.isFile());
    const state = files.map((file) => readFileSync(join(file.parentPath, file.name), "latin1")).join("");
    const events = JSON.stringify(await director.events.listEvents({}));
    for (const key of keys) {
      expect(key).to.have.lengthOf(64);
      for (const place of [director.process.logs, state, events, ...outputs]) expect(place).not.to.contain(key);
    }
    // What was looked through has the rest of the story.
    expect(state).to.contain(agents[0]?.vm.agentId);
  });

  it("an agent may publish, subscribe and reply as nobody but itself", async () => {
    const [a, b] = agents.map(({ vm }) => vm.agentId) as [string, string];
    const { connection, refused } = await connectAs((agents[0] as VmAgent).files);
    await connection.whenConnected(AbortSignal.timeout(20_000));
    const health = ["heartbeat", "alert", "shutdown"];
    const publish = {
      own: [...health.map((kind) => `hm.agent.${kind}.${a}`), `director.some.${a}.request`],
      others: [
        ...health.map((kind) => `hm.agent.${kind}.${b}`),
        ...[`agent.${a}`, `agent.${b}`, "hm.director.alert", "director.some.request", `director.some.${b}.request`],
        ...[
          `director.some.${a}.request.more`,
          `director.${a}`,
          "_INBOX.x",
          "$SYS.REQ.SERVER.PING",
          "$SYS.REQ.USER.AUTH",
        ],
      ],
    };
    const subscribe = {
      own: [`agent.${a}`],
      others: [
        ...[
          `agent.${b}`,
          "agent.*",
          "agent.>",
          ">",
          "*",
          "*.*",
          `*.${a}`,
          "director.>",
          `director.*.${a}.*`,
          "_INBOX.>",
        ],
        ...[
          "hm.>",
          "hm.director.alert",
          ...health.map((kind) => `hm.agent.${kind}.${a}`),
          "$SYS.>",
          "$SYS.REQ.USER.AUTH",
        ],
      ],
    };
    const nothing = new Uint8Array();
    for (const subject of [...publish.own, ...publish.others]) connection.publish(subject, nothing);
    for (const subject of [...subscribe.own, ...subscribe.others]) connection.subscribe(subject, () => {});
    const expected = [
      ...publish.others.map((subject) => `publish ${subject}`),
      ...subscribe.others.map((subject) => `subscription ${subject}`),
    ];
    await eventually(() => expect(refused).to.include.members(expected));
    expect(refused).to.have.members(expected);
  });

  it("a VM that is deleted -> its certificate is refused, and what it has open is closed", async () => {
    const [kept, gone] = agents as [VmAgent, VmAgent];
    const thief = await connectAs(gone.files);
    const neighbour = await connectAs(kept.files);
    for (const { connection } of [thief, neighbour]) await connection.whenConnected(AbortSignal.timeout(20_000));
    let losses = 0;
    neighbour.connection.onDisconnected(() => losses++);
    await director.vms.deleteVm({ vmCid: gone.vm.vmCid, wait: true });
    await eventually(() => expect(thief.connection.isConnected).to.equal(false));
    await eventually(() => expect(thief.failures).to.have.lengthOf.above(1));
    expect(thief.connection.isConnected).to.equal(false);
    expect(neighbour.connection.isConnected).to.equal(true);
    expect(losses).to.equal(0);
  });
});
