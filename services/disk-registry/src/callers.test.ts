import { readFileSync } from "node:fs";
import { connect } from "node:tls";
import { AdminServiceDefinition, SubjectKind } from "@diskmesh/api/common";
import { AgentRegistrationServiceDefinition, type RegisterAgentRequest, ReportedDevice } from "@diskmesh/api/internal";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { type Call, firstOf, refused, WATCH } from "./testing/calls.js";
import type { TestAgent } from "./testing/test-agent.js";
import { TestRegistry } from "./testing/test-registry.js";

const reported = (change: object) =>
  ReportedDevice.fromPartial({ deviceId: "d1", path: "/dev/d1", sizeBytes: 4096, blockSizeBytes: 512, ...change });

const REGISTRATIONS: readonly [string, Partial<RegisterAgentRequest>, string, string][] = [
  ["another host's id", { hostId: "h2" }, "PermissionDeniedError", "its certificate names another host"],
  ["a malformed host id", { hostId: "../h1" }, "InvalidArgumentError", "host_id"],
  ["no host id", { hostId: "" }, "InvalidArgumentError", "host_id is empty"],
  ["no boot id", { bootId: "" }, "InvalidArgumentError", "boot_id"],
  ["no az", { az: "" }, "InvalidArgumentError", "az"],
  ["no address", { address: "" }, "InvalidArgumentError", "address"],
  ["an address without a port", { address: "10.0.0.1" }, "InvalidArgumentError", "address"],
  ["an address with port 0", { address: "10.0.0.1:0" }, "InvalidArgumentError", "address"],
  ["an address that is another scheme", { address: "unix:///etc/passwd:1" }, "InvalidArgumentError", "address"],
  ["a device twice", { devices: [reported({}), reported({})] }, "InvalidArgumentError", "twice"],
  ["a malformed device id", { devices: [reported({ deviceId: "../d1" })] }, "InvalidArgumentError", "device_id"],
  [
    "too many devices",
    { devices: Array.from({ length: 4_097 }, (_, i) => reported({ deviceId: `d${i}` })) },
    "InvalidArgumentError",
    "at most 4096",
  ],
  [
    "another registry's agent",
    { tabletId: "some-other-tablet" },
    "InvalidStateError",
    "obeys tablet some-other-tablet",
  ],
];

const FLOODS: readonly [string, string, (agent: TestAgent, n: number) => Promise<unknown>][] = [
  [
    "is refused for another reason each time",
    "agent registration refused",
    (agent, n) => refused(agent.register({ az: `z ${n}` }), "InvalidArgumentError", "az"),
  ],
  [
    "registers with a device that is refused, again and again",
    "devices of an agent registration refused",
    (agent) => agent.register({ devices: [reported({ deviceId: "bad", path: "" })] }),
  ],
  [
    "is refused for its numbers and accepted in turn",
    "the agent of host flood-2 remembers session number",
    async (agent) => {
      const beaten = agent.heartbeat(floodHost(2), agent.bootId, { highestSessionNumber: 2 ** 40 });
      await refused(beaten, "InvalidStateError", "remembers session number");
      await agent.heartbeat();
    },
  ],
];

function floodHost(index: number): string {
  return `flood-${index}`;
}

describe("the callers of the disk-registry", () => {
  let registry: TestRegistry;
  let agent: TestAgent;

  before(async () => {
    registry = await TestRegistry.start({}, ["h1", ...FLOODS.map((_, index) => floodHost(index))]);
    agent = await registry.agent("h1", ["d1"]);
    await agent.register();
    // The registry writes an unknown device once more, when its agent confirms the detach.
    await eventually(async () => expect((await registry.device("d1")).detachConfirmed).to.equal(true));
  });
  after(async () => registry?.stop());

  for (const [cause, change, name, says] of REGISTRATIONS) {
    it(`an agent that registers with ${cause} gets ${name}, and nothing changes`, async () => {
      const before = await registry.device("d1");
      await refused(agent.register(change), name, says);
      expect(await registry.device("d1")).to.deep.equal(before);
    });
  }

  it("a refused registration is the first cause of its host until the same agent is accepted, and is logged once", async () => {
    const admin = registry.operatorOf(AdminServiceDefinition);
    const causes = async () => (await admin.explain({ subject: { kind: SubjectKind.HOST, name: "h1" } })).causes;
    for (let times = 0; times < 2; times++) await refused(agent.register({ az: "z 1" }), "InvalidArgumentError", "az");
    const [first] = await causes();
    expect(first?.reason).to.equal("REGISTRATION_REFUSED");
    expect(first?.message).to.contain(`the agent at 127.0.0.1:${agent.port}: az "z 1" is malformed`);
    const logged = registry.process.logs.split("\n").filter((line) => line.includes("registration refused"));
    expect(logged.filter((line) => line.includes("z 1"))).to.have.length(1);
    await agent.register();
    expect((await causes()).map(({ reason }) => reason)).not.to.contain("REGISTRATION_REFUSED");
  });

  for (const [index, [cause, told, call]] of FLOODS.entries()) {
    it(`an agent that ${cause} has its log lines limited`, async () => {
      const hostId = floodHost(index);
      const flooding = await registry.agent(hostId, [`d-${hostId}`]);
      await flooding.register();
      for (let n = 0; n < 200; n++) await call(flooding, n);
      const lines = registry.process.logs.split("\n").filter((line) => line.includes(`"hostId":"${hostId}"`));
      expect(lines.filter((line) => line.includes(`"message":"${told}`))).to.have.length.within(1, 120);
    });
  }

  it("a heartbeat for another host gets PERMISSION_DENIED", () =>
    refused(agent.heartbeat("h2"), "PermissionDeniedError", "its certificate names another host"));

  it("the cause of a host that never registered names the agents refused in its name", async () => {
    const admin = registry.operatorOf(AdminServiceDefinition);
    const explained = () => admin.explain({ subject: { kind: SubjectKind.HOST, name: "h9" } });
    await refused(explained(), "NotFoundError", "there is no host h9");
    await refused(agent.heartbeat("h9"), "PermissionDeniedError", "its certificate names another host");
    const { summary, causes } = await explained();
    expect(summary).to.equal("host h9 has never registered with this registry");
    expect(causes.map(({ reason }) => reason)).to.deep.equal(["AGENT_REFUSED"]);
    expect(causes[0]?.message).to.contain("disk-agent h1 may not act for host h9");
  });

  const roles: readonly [string, Call, boolean][] = [
    ["cpi-dispatcher", (c) => c.getHost({ hostId: "h1" }), true],
    ["cpi-dispatcher", (c) => c.deleteDisk({ diskId: "none" }), true],
    ["cpi-dispatcher", (c) => c.addHost({ hostId: "h1", dryRun: true }), false],
    [
      "cpi-dispatcher",
      (c) => c.setHostState({ hostIds: ["h1"], state: "HOST_STATE_DEAD", reason: "burnt", dryRun: true }),
      false,
    ],
    ["cpi-dispatcher", (c) => c.purgeHost({ hostId: "h1", dryRun: true, force: true }), false],
    ["director", (c) => c.listDisks({}), true],
    ["director", (c) => firstOf(c.watchDevices(WATCH)), true],
    ["disk-agent-h1", (c) => firstOf(c.watchDevices(WATCH)), false],
    ["director", (c) => c.deleteDisk({ diskId: "none" }), false],
    ["disk-agent-h1", (c) => c.undeleteDisk({ diskId: "none" }), false],
    ["director", (c) => c.addHost({ hostId: "h1", dryRun: true }), true],
    ["director", (c) => c.removeHost({ hostId: "h1", dryRun: true }), true],
    ["director", (c) => c.purgeHost({ hostId: "h1", dryRun: true }), false],
    ["disk-agent-h1", (c) => c.getHost({ hostId: "h1" }), false],
    ["disk-agent-h1", (c) => c.publishDisk({ diskId: "x", hostId: "h1" }), false],
    ["disk-registry", (c) => c.getHost({ hostId: "h1" }), false],
  ];
  for (const [name, call, allowed] of roles) {
    it(`the certificate of ${name}, ${String(call).replace(/^\(c\) => c\./, "")} -> ${allowed ? "served" : "PERMISSION_DENIED"}`, async () => {
      const client = registry.client(name);
      if (allowed) await call(client);
      else await refused(call(client), "PermissionDeniedError", "may not call");
    });
  }

  it("an operator who registers a host gets PERMISSION_DENIED", async () => {
    const registering = registry.operatorOf(AgentRegistrationServiceDefinition).registerAgent({ hostId: "h1" });
    await refused(registering, "PermissionDeniedError", "may not call");
  });

  it("a client without a certificate gets no connection", async () => {
    const ca = readFileSync(registry.certificates.files("operator").caFile);
    const [host, port] = registry.address.split(":");
    const socket = connect({
      host,
      port: Number(port),
      ca,
      checkServerIdentity: () => undefined,
      ALPNProtocols: ["h2"],
    });
    const outcome = await new Promise<string>((resolve) => {
      socket.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
      socket.on("close", () => resolve("closed"));
      // An HTTP/2 server sends its SETTINGS frame first, so any data means that the connection was accepted.
      socket.on("data", () => resolve("answered"));
    }).finally(() => socket.destroy());
    expect(outcome).to.be.oneOf(["closed", "ECONNRESET"]);
  });
});
