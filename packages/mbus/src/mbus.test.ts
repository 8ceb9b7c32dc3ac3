import { AsyncLocalStorage } from "node:async_hooks";
import { X509Certificate } from "node:crypto";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  CancelledError,
  InvalidArgumentError,
  type Logger,
  NotImplementedError,
  ResourceExhaustedError,
  silentLogger,
  TimeoutError,
  UnavailableError,
} from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import {
  type Context,
  type ContextManager,
  context,
  createContextKey,
  propagation,
  ROOT_CONTEXT,
} from "@opentelemetry/api";
import { expect } from "chai";
import { connect, headers } from "nats";
import { AgentClient } from "./agent-client.js";
import { AgentError } from "./agent-error.js";
import { type AgentMethod, AgentServer } from "./agent-server.js";
import { connectNats, type Message, type NatsConnection, reconnectDelayMs } from "./connection.js";
import { watchHeartbeats } from "./heartbeats.js";
import { TestServer } from "./testing/test-server.js";

/** Long beside what a busy machine makes a request wait: what is to fail at once fails in less than half of it. */
const timing = { requestTimeoutMs: 30_000, callTimeoutMs: 60_000, taskPollIntervalMs: 20 };

const until = (condition: () => boolean): Promise<boolean> => eventually(condition);

const TRACE = createContextKey("trace of the test");

/** The context manager of a telemetry SDK, as small as it gets. */
class AsyncLocalContext implements ContextManager {
  readonly #storage = new AsyncLocalStorage<Context>();
  active = () => this.#storage.getStore() ?? ROOT_CONTEXT;
  with: ContextManager["with"] = (context, work, self, ...args) =>
    this.#storage.run(context, () => work.apply(self as never, args));
  bind = <T>(_context: Context, target: T) => target;
  enable = () => this;
  disable = () => this;
}

const RUNNING_SIZE_BYTES = 1024 * 1024;

describe("mbus", () => {
  let server: TestServer;
  let director: NatsConnection;
  let agent: NatsConnection;
  let agentServer: AgentServer;
  let client: AgentClient;
  let aborted: string[] = [];
  let release = () => {};
  let hangs = 0;

  const received: unknown[] = [];
  // As talkative as an agent can be.
  const refuse: AgentMethod["run"] = async (args) => {
    received.push(args);
    throw new Error(`cannot do it with ${JSON.stringify(args)}`);
  };
  const hang = () =>
    new Promise<void>((resolve) => {
      hangs++;
      release = resolve;
    });
  const hasBegun = () => until(() => hangs > 0);
  const methods: Record<string, AgentMethod> = {
    echo: { mode: "sync", minArguments: 1, run: async (args) => args },
    nothing: { mode: "sync", minArguments: 0, run: async () => undefined },
    fail: { mode: "sync", minArguments: 0, run: () => Promise.reject(new Error("the disk is on fire")) },
    long: { mode: "async", minArguments: 0, run: async () => sleep(100, { done: true }) },
    long_fail: { mode: "async", minArguments: 0, run: () => Promise.reject(new Error("no link")) },
    endless: {
      mode: "async",
      minArguments: 0,
      run: (_, signal) =>
        new Promise((_resolve, reject) =>
          signal.addEventListener("abort", () => {
            aborted.push("endless");
            reject(signal.reason);
          }),
        ),
    },
    hang: { mode: "sync", minArguments: 0, run: hang },
    long_hang: { mode: "async", minArguments: 0, run: hang },
    trace: { mode: "async", minArguments: 0, run: async () => context.active().getValue(TRACE) },
    add_persistent_disk: { mode: "async", minArguments: 2, run: refuse },
    add_dynamic_disk: { mode: "sync", minArguments: 2, run: refuse },
    mount_disk: { mode: "async", minArguments: 2, run: async (args) => ({ mounted: args }) },
    update_settings: { mode: "async", minArguments: 1, run: refuse },
    huge: { mode: "sync", minArguments: 0, run: async () => "x".repeat(2 ** 20) },
  };

  const startAgent = (log: Logger = silentLogger) =>
    new AgentServer({
      nats: agent,
      agentId: "host-1",
      methods,
      heartbeat: () => ({ job_state: "running" }),
      heartbeatIntervalMs: 50,
      log,
      limits: { maxRunningRequests: 1, maxRunningRequestBytes: RUNNING_SIZE_BYTES },
    });

  before(async () => {
    server = await TestServer.start(["host-1", "host-2"]);
    director = await server.connect("director");
    agent = await server.connect("disk-agent-host-1");
    await until(() => director.isConnected && agent.isConnected);
  });

  // What one connection subscribes to is not yet there for what another publishes.
  async function agentReady(): Promise<void> {
    await eventually(() => client.call("host-1", "ping", [], { timeoutMs: 100 }));
  }

  /** Until the agent is asked how a long request goes: by then the client has heard that it runs. */
  async function polled(): Promise<void> {
    let polls = 0;
    const spy = agent.subscribe("agent.host-1", ({ data }) => {
      if (JSON.parse(Buffer.from(data).toString()).method === "get_task") polls++;
    });
    await until(() => polls > 0);
    spy.unsubscribe();
  }

  beforeEach(async () => {
    aborted = [];
    hangs = 0;
    agentServer = startAgent();
    client = new AgentClient({ nats: director, directorId: "process-1", ...timing });
    await agentReady();
  });

  afterEach(async () => {
    release();
    client.close();
    await agentServer.close();
  });

  after(() => server.stop());

  describe("secrets in arguments", () => {
    const CANARY = "canary-h1dden";
    const hint = { path: "/dev/sdb", iscsi_settings: { username: "u", password: CANARY, target: "iqn" } };
    const CALLS: [string, unknown[]][] = [
      ["add_persistent_disk", ["disk-1", hint]],
      ["add_dynamic_disk", ["disk-1", `iqn;${CANARY}`]],
      ["update_settings", [{ mbus: { urls: [`nats://u:${CANARY}@h`] }, blobstores: [{ options: { key: CANARY } }] }]],
    ];
    for (const [method, args] of CALLS)
      it(`${method} fails, and the agent says it all again -> it got them; no log and no error shows them`, async () => {
        const lines: string[] = [];
        const line = (fields: object, message: string) => lines.push(`${message} ${JSON.stringify(fields)}`);
        const log = { debug: line, info: line, warn: line, error: line };
        client.close();
        await agentServer.close();
        agentServer = startAgent(log);
        client = new AgentClient({ nats: director, directorId: "process-2", ...timing, log });
        await agentReady();
        const error = await rejection(client.call("host-1", method, args), AgentError);
        expect(received.at(-1)).to.deep.equal(args);
        expect(error).to.be.instanceOf(AgentError);
        expect(error.agentMessage).to.match(/cannot do it with .*<redacted>/);
        const written = lines.join("\n");
        expect(written).to.include(`asked an agent {"agentId":"host-1","method":"${method}"`).and.include("failed {");
        expect(`${written} ${error.stack} ${JSON.stringify(error)}`).not.to.include(CANARY);
      });

    it("a method gives them back -> neither its reply nor what is kept of its task holds them", async () => {
      const result = await client.call("host-1", "mount_disk", ["disk-1", hint]);
      expect(JSON.stringify(result)).to.include("<redacted>").and.include("disk-1").and.not.include(CANARY);
    });
  });

  describe("a call", () => {
    it("gives the method's result, with all arguments", async () => {
      expect(await client.call("host-1", "echo", ["a", { b: [1] }, null])).to.deep.equal(["a", { b: [1] }, null]);
      expect(await client.call("host-1", "ping", [])).to.equal("pong");
      expect(await client.call("host-1", "nothing", [])).to.equal(null);
    });

    it("of a long method that ends within the time for an answer is one request", async () => {
      const asked: string[] = [];
      const watching = agent.subscribe("agent.host-1", ({ data }) =>
        asked.push(JSON.parse(`${Buffer.from(data)}`).method),
      );
      await eventually(async () => {
        await client.call("host-1", "ping", []);
        expect(asked).to.include("ping");
      });
      const within = { answerWithinMs: 1_000 };
      expect(await client.call("host-1", "long", [], within)).to.deep.equal({ done: true });
      const error = await rejection(client.call("host-1", "long_fail", [], within), AgentError);
      expect(error.agentMessage).to.equal("Action Failed long_fail: no link");
      expect(asked.filter((method) => method !== "ping")).to.deep.equal(["long", "long_fail"]);
      expect(await client.call("host-1", "long", [], { answerWithinMs: 1 })).to.deep.equal({ done: true });
      expect(asked).to.include("get_task");
      watching.unsubscribe();
    });

    it("of a long method waits for its task", async () => {
      expect(await client.call("host-1", "long", [])).to.deep.equal({ done: true });
    });

    it("fails with the agent's text", async () => {
      const error = await rejection(client.call("host-1", "fail", []), AgentError);
      expect(error.agentMessage).to.equal("Action Failed fail: the disk is on fire");
    });

    it("fails with the text of a long method", async () => {
      const error = await rejection(client.call("host-1", "long_fail", []), AgentError);
      expect(error.agentMessage).to.match(/^Action Failed get_task: Task [0-9a-f-]+ result: no link$/);
    });

    it("with too few arguments says how many", async () => {
      const error = await rejection(client.call("host-1", "echo", []), AgentError);
      expect(error.agentMessage).to.equal("Action Failed echo: Not enough arguments, expected 1, got 0");
    });

    for (const method of ["nobody_knows", "constructor", "__proto__"])
      it(`of the unknown method ${method} fails, or is ignored`, async () => {
        await rejection(client.call("host-1", method, []), NotImplementedError);
        expect(await client.call("host-1", method, [], { unknownMethodIs: "ignored" })).to.equal(undefined);
      });

    it("whose result is above 1 MiB fails", async () => {
      const error = await rejection(client.call("host-1", "huge", []), AgentError);
      expect(error.agentMessage).to.equal("Response exceeded maximum allowed length");
    });

    it("whose arguments are above 1 MiB is not sent", async () => {
      await rejection(client.call("host-1", "echo", ["x".repeat(2 ** 20)]), InvalidArgumentError);
    });

    it("to a malformed agent id is not sent", async () => {
      for (const id of ["", "*", "host-1.x", ">"])
        expect(await rejection(client.call(id, "ping", [])), id).to.be.instanceOf(InvalidArgumentError);
    });

    it("to an agent that is not there fails at once: nothing was done", async () => {
      const startedAtMs = performance.now();
      const error = await rejection(client.call("host-2", "ping", []));
      expect(error).to.be.instanceOf(UnavailableError).with.property("outcome", "not_done");
      expect(performance.now() - startedAtMs).to.be.below(timing.requestTimeoutMs / 2);
    });

    it("without a reply in time has an unknown outcome", async () => {
      const error = await rejection(client.call("host-1", "hang", [], { requestTimeoutMs: 100 }));
      expect(error).to.be.instanceOf(UnavailableError).with.property("outcome", "unknown");
    });

    it("that still runs when its time is over is cancelled at the agent", async () => {
      await rejection(client.call("host-1", "endless", [], { timeoutMs: 150 }), TimeoutError);
      await until(() => aborted.length === 1);
    });

    it("that the caller gives up is cancelled at the agent", async () => {
      const controller = new AbortController();
      const failing = rejection(client.call("host-1", "endless", [], { signal: controller.signal }));
      await polled();
      controller.abort();
      expect(await failing).to.be.instanceOf(CancelledError);
      await until(() => aborted.length === 1);
    });

    it("with a signal that is aborted already fails", async () => {
      const failing = client.call("host-1", "echo", [1], { signal: AbortSignal.abort() });
      await rejection(failing, CancelledError);
    });

    it("fails when the client is closed", async () => {
      const failing = rejection(client.call("host-1", "hang", []));
      await hasBegun();
      client.close();
      expect(await failing)
        .to.be.instanceOf(UnavailableError)
        .with.property("outcome", "unknown");
    });

    it("of a long method ends when the client is closed", async () => {
      const failing = rejection(client.call("host-1", "endless", []));
      await polled();
      client.close();
      expect(await failing).to.be.instanceOf(CancelledError);
    });

    it("learns that the agent was started anew while it ran", async () => {
      const failing = rejection(client.call("host-1", "endless", []));
      await polled();
      await agentServer.close();
      agentServer = startAgent();
      const error = await failing;
      // Either the last poll of the old one or the first of the new one is heard.
      if (error instanceof AgentError) expect(error.agentMessage).to.include("the agent stops");
      else expect(error).to.be.instanceOf(UnavailableError).with.property("outcome", "unknown");
    });
  });

  it("lets an agent run only so many requests at once, and polls and pings go on", async () => {
    const hanging = client.call("host-1", "hang", []);
    await hasBegun();
    const error = await rejection(client.call("host-1", "echo", [1]), AgentError);
    expect(error.agentMessage).to.include("maxRunningRequests");
    expect(await client.call("host-1", "ping", [])).to.equal("pong");
    expect(await client.call("host-1", "long", [])).to.deep.equal({ done: true });
    release();
    await hanging;
  });

  for (const method of ["hang", "long_hang"])
    it(`lets an agent run requests of only so many bytes at once, such as ${method}, and takes others later`, async () => {
      const large = "x".repeat(0.75 * RUNNING_SIZE_BYTES);
      const hanging = client.call("host-1", method, [large]);
      await eventually(async () => {
        const error = await rejection(client.call("host-1", "long", [large]), AgentError);
        expect(error.agentMessage).to.match(/more than \d+ may not \(maxRunningRequestBytes\)/);
      });
      expect(await client.call("host-1", "ping", [])).to.equal("pong");
      release();
      await hanging;
      expect(await client.call("host-1", "long", [large])).to.deep.equal({ done: true });
    });

  it("lets a director have only so many requests pending", async () => {
    const options = { nats: director, directorId: "process-2", ...timing, maxPendingRequests: 1 };
    const limited = new AgentClient(options);
    const hanging = limited.call("host-1", "hang", []);
    await rejection(limited.call("host-1", "ping", []), ResourceExhaustedError);
    await hasBegun();
    release();
    await hanging;
    limited.close();
  });

  it("carries heartbeats", async () => {
    const heard: [string, unknown][] = [];
    const watch = watchHeartbeats(director, (agentId, heartbeat) => heard.push([agentId, heartbeat]));
    await until(() => heard.length >= 2);
    watch.unsubscribe();
    expect(heard[0]).to.deep.equal(["host-1", { job_state: "running" }]);
  });

  it("says when an agent is heard: by a heartbeat, and by a reply that comes too late", async () => {
    const heard: string[] = [];
    const stop = client.onHeard((agentId) => heard.push(agentId));
    await until(() => heard.includes("host-1"));
    stop();
    await sleep(100);
    heard.length = 0;
    const quiet = new AgentClient({ nats: director, directorId: "process-3", ...timing, requestTimeoutMs: 20 });
    await rejection(quiet.call("host-1", "hang", []), UnavailableError);
    const replies: string[] = [];
    const end = quiet.onHeard((agentId) => replies.push(agentId));
    await hasBegun();
    release();
    await until(() => replies.includes("host-1"));
    end();
    quiet.close();
    expect(heard).to.deep.equal([], "nothing once it is stopped");
  });

  it("drops heartbeats that cannot be read", async () => {
    const heard: string[] = [];
    const watch = watchHeartbeats(director, (agentId) => heard.push(agentId));
    const other = await server.connect("disk-agent-host-2");
    await until(() => other.isConnected);
    other.publish("hm.agent.heartbeat.host-2", Buffer.from("{"));
    other.publish("hm.agent.heartbeat.host-2", Buffer.from("[]"));
    other.publish("hm.agent.heartbeat.host-2", Buffer.from(`{"a":${"[".repeat(5_000)}${"]".repeat(5_000)}}`));
    other.publish("hm.agent.heartbeat.host-2", Buffer.from(`{"a":"${"x".repeat(70_000)}"}`));
    other.publish("hm.agent.heartbeat.host-2", Buffer.from("{}"));
    await until(() => heard.includes("host-2"));
    watch.unsubscribe();
    expect(heard.filter((id) => id === "host-2")).to.have.length(1);
  });

  it("carries the caller's trace to the agent's method", async () => {
    // Does with one header what the W3C propagator of a telemetry SDK does.
    propagation.setGlobalPropagator({
      inject: (context, headers, setter) => setter.set(headers, "traceparent", String(context.getValue(TRACE))),
      extract: (context, headers, getter) => context.setValue(TRACE, getter.get(headers, "traceparent")),
      fields: () => ["traceparent"],
    });
    try {
      context.setGlobalContextManager(new AsyncLocalContext().enable());
      const caller = ROOT_CONTEXT.setValue(TRACE, "00-trace-of-the-caller");
      const seen = await context.with(caller, () => client.call("host-1", "trace", []));
      expect(seen).to.equal("00-trace-of-the-caller");
    } finally {
      context.disable();
      propagation.disable();
    }
  });

  describe("an agent's permissions", () => {
    let intruder: NatsConnection;

    before(async () => {
      intruder = await server.connect("disk-agent-host-2");
      await until(() => intruder.isConnected);
    });

    it("do not let it read another's requests", async () => {
      const heard: string[] = [];
      intruder.subscribe("agent.host-1", ({ subject }) => heard.push(subject));
      intruder.subscribe("agent.>", ({ subject }) => heard.push(subject));
      intruder.subscribe("director.>", ({ subject }) => heard.push(subject));
      await client.call("host-1", "echo", [1]);
      await sleep(100);
      expect(heard).to.deep.equal([]);
    });

    it("do not let it ask, answer or beat for another", async () => {
      const heard: string[] = [];
      const hear = ({ subject, data }: Message) => {
        if (Buffer.from(data).toString() === "forged") heard.push(subject);
      };
      const watches = ["hm.agent.heartbeat.*", "director.process-9.>"].map((subject) =>
        director.subscribe(subject, hear),
      );
      // The director's subscriptions are there once one of its requests was answered.
      await client.call("host-1", "ping", []);
      for (const subject of ["agent.host-1", "hm.agent.heartbeat.host-1", "director.process-9.host-1.r1"])
        intruder.publish(subject, Buffer.from("forged"));
      intruder.publish("director.process-9.host-2.r1", Buffer.from("forged"));
      await until(() => heard.length > 0);
      for (const watch of watches) watch.unsubscribe();
      expect(heard).to.deep.equal(["director.process-9.host-2.r1"]);
    });

    it("do not let a header have the server beat for another", async () => {
      const heard: string[] = [];
      const hear = ({ subject, data }: Message) => heard.push(`${subject} ${Buffer.from(data)}`);
      const watch = director.subscribe("hm.agent.heartbeat.*", hear);
      await client.call("host-1", "ping", []);
      const tls = { ...server.certs.files("disk-agent-host-2"), checkServerIdentity: () => undefined };
      const link = await connect({ servers: [server.nats.address], tls, reconnect: false });
      const traced = headers();
      traced.set("Nats-Trace-Dest", "hm.agent.heartbeat.host-3");
      link.publish("hm.agent.heartbeat.host-2", Buffer.from("{}"), { headers: traced });
      // What the server itself sends for the first message, if it takes that, is there before the second one.
      link.publish("hm.agent.heartbeat.host-2", Buffer.from("last"));
      await until(() => heard.includes("hm.agent.heartbeat.host-2 last"));
      await link.close();
      watch.unsubscribe();
      expect(heard.filter((line) => line.includes("host-3"))).to.deep.equal([]);
    });

    it("let it answer only as itself, which is no answer to what was asked of another", async () => {
      let replyTo = "";
      const spy = agent.subscribe("agent.host-1", ({ data }) => {
        replyTo = JSON.parse(Buffer.from(data).toString()).reply_to;
      });
      // Once an answer came over the same connection, the spy is in place.
      await client.call("host-1", "ping", []);
      replyTo = "";
      const hanging = client.call("host-1", "hang", []);
      await until(() => replyTo !== "");
      spy.unsubscribe();
      intruder.publish(replyTo.replace("host-1", "host-2"), Buffer.from('{"value":"forged"}'));
      await sleep(100);
      release();
      expect(await hanging).to.equal(null);
    });
  });

  it("makes an agent drop requests whose reply would go elsewhere", async () => {
    const heard: string[] = [];
    const everything = director.subscribe("director.>", ({ subject }) => heard.push(subject));
    const ask = (reply_to: unknown) =>
      director.publish("agent.host-1", Buffer.from(JSON.stringify({ method: "ping", arguments: [], reply_to })));
    for (const replyTo of ["agent.host-1", "director.p.host-2.r", "director.p.host-1.>", "hm.agent.alert.host-1", 5])
      ask(replyTo);
    director.publish("agent.host-1", Buffer.from("not json"));
    ask("director.p.host-1.last");
    await until(() => heard.length > 0);
    everything.unsubscribe();
    expect(heard).to.deep.equal(["director.p.host-1.last"]);
  });

  describe("while NATS is away", () => {
    it("a request fails within its time and is not sent later", async () => {
      let calls = 0;
      const counting = new AgentServer({
        nats: agent,
        agentId: "host-1",
        methods: { count: { mode: "sync", minArguments: 0, run: async () => ++calls } },
        heartbeat: () => ({}),
        heartbeatIntervalMs: 1_000,
        log: silentLogger,
      });
      await server.nats.kill();
      await until(() => !director.isConnected && !agent.isConnected);
      const startedAtMs = performance.now();
      const error = await rejection(client.call("host-1", "count", [], { timeoutMs: 200 }));
      expect(error).to.be.instanceOf(UnavailableError).with.property("outcome", "not_done");
      expect(performance.now() - startedAtMs).to.be.within(150, timing.requestTimeoutMs / 2);
      await server.nats.start();
      await until(() => director.isConnected && agent.isConnected);
      await sleep(200);
      expect(calls).to.equal(0);
      await counting.close();
    });

    it("a request of a client that is closed meanwhile is not sent later", async () => {
      await server.nats.kill();
      await until(() => !director.isConnected && !agent.isConnected);
      const failing = rejection(client.call("host-1", "hang", []));
      await sleep(20);
      client.close();
      expect(await failing)
        .to.be.instanceOf(UnavailableError)
        .with.property("outcome", "not_done");
      let isHeard = false;
      agent.subscribe("agent.host-1", () => {
        isHeard = true;
      });
      await server.nats.start();
      await until(() => director.isConnected && agent.isConnected);
      await sleep(100);
      expect(isHeard).to.equal(false);
    });

    it("a request waits for it, and subscriptions come back", async () => {
      await server.nats.kill();
      await until(() => !director.isConnected && !agent.isConnected);
      const heard: string[] = [];
      watchHeartbeats(director, (agentId) => heard.push(agentId));
      const waiting = director.whenConnected(AbortSignal.timeout(timing.callTimeoutMs));
      await server.nats.start();
      await waiting;
      await agentReady();
      expect(await client.call("host-1", "echo", [1])).to.deep.equal([1]);
      await until(() => heard.length > 0);
    });

    it("a request under way fails at once with an unknown outcome", async () => {
      const failing = rejection(client.call("host-1", "hang", []));
      await hasBegun();
      const startedAtMs = performance.now();
      await server.nats.kill();
      expect(await failing)
        .to.be.instanceOf(UnavailableError)
        .with.property("outcome", "unknown");
      expect(performance.now() - startedAtMs).to.be.below(timing.requestTimeoutMs / 2);
      await server.nats.start();
      await until(() => director.isConnected && agent.isConnected);
    });

    it("a long request that runs is polled again when it is back", async () => {
      const calling = client.call("host-1", "long_hang", []);
      await polled();
      await server.nats.kill();
      await until(() => !director.isConnected && !agent.isConnected);
      await server.nats.start();
      release();
      expect(await calling).to.equal(null);
    });
  });

  describe("a connection", () => {
    it("is refused to a server with another process's certificate", async () => {
      const warnings: object[] = [];
      const log = { ...silentLogger, warn: (fields: object) => warnings.push(fields) };
      const impostor = await TestServer.start([], "director");
      const connection = await connectNats({
        servers: [impostor.nats.address],
        tls: impostor.certs.files("director"),
        name: "test",
        log,
      });
      await until(() => warnings.length > 0);
      expect(connection.isConnected).to.equal(false);
      const words = "not for a NATS server: its common name must end in .nats.bosh-internal";
      expect(JSON.stringify(warnings[0])).to.include(words);
      await connection.close();
      await impostor.stop();
    });

    it("is refused to a process that the server has no user for, in words that say what to do there", async () => {
      const certFile = server.certs.files("operator").certFile;
      const connection = await connectNats({
        servers: [server.nats.address],
        tls: server.certs.files("operator"),
        name: "a stranger",
      });
      try {
        const told: (string | undefined)[] = [];
        const forget = connection.onChange((why) => told.push(why));
        expect(told).to.deep.equal(["it is not connected yet"]);
        await until(() => told.length > 1);
        forget();
        expect(told[1]).to.contain(`the server has no user for a stranger's certificate "${certFile}"`);
        expect(told[1]).to.contain("URI:spiffe://diskmesh/<role>, and reload the server ('Authorization Violation')");
      } finally {
        await connection.close();
      }
    });

    it("is refused to a server that is revoked, also one that stands; files that change count for the next one", async () => {
      const folder = temporaryFolder();
      const revokedFile = join(folder, "revoked");
      const trust = (caFile: string) => copyFileSync(caFile, join(folder, "ca.pem"));
      const { caFile, certFile: serverCertFile } = server.certs.files("nats");
      writeFileSync(revokedFile, "");
      trust(serverCertFile);
      const connection = await connectNats({
        servers: [server.nats.address],
        tls: { ...server.certs.files("director"), caFile: join(folder, "ca.pem"), revokedFile },
        name: "director",
        reconnect: { stepMs: 20, maxMs: 100 },
      });
      try {
        let why: string | undefined = "";
        connection.onChange((told) => {
          why = told;
        });
        await until(() => why?.includes("of an authority (CA) that this process does not trust") === true);
        trust(caFile);
        await until(() => connection.isConnected);
        const { serialNumber } = new X509Certificate(readFileSync(serverCertFile));
        writeFileSync(revokedFile, serialNumber);
        await until(() => why?.includes(`serial number ${serialNumber} is revoked`) === true);
        expect(connection.isConnected).to.equal(false);
        writeFileSync(revokedFile, "");
        await until(() => connection.isConnected);
      } finally {
        await connection.close();
      }
    });

    it("is not made without a server, to a malformed one, or without its files", async () => {
      const tls = server.certs.files("director");
      const connecting = (options: object) =>
        rejection(connectNats({ servers: ["127.0.0.1:1"], tls, name: "t", ...options }));
      for (const servers of [[], [""], ["http://x:1"], ["tls://user:secret@x:1"], ["x:99999"]])
        expect(await connecting({ servers }), JSON.stringify(servers)).to.be.instanceOf(InvalidArgumentError);
      const missing = await connecting({ tls: { ...tls, keyFile: "/nowhere/key.pem" } });
      expect(missing).to.be.instanceOf(InvalidArgumentError);
      expect(missing.message).to.include("/nowhere/key.pem");
    });

    it("closes while it still tries to connect", async () => {
      const tls = server.certs.files("director");
      const connection = await connectNats({ servers: ["127.0.0.1:1"], tls, name: "t" });
      await connection.close();
      expect(() => connection.publish("x", Buffer.from(""))).to.throw(UnavailableError);
    });

    it("waits a step longer after each failure, up to a limit, and half of it is random", () => {
      const limits = { stepMs: 2_000, maxMs: 10_000 };
      expect([1, 2, 5, 6, 100].map((failures) => reconnectDelayMs(failures, limits, 1))).to.deep.equal([
        2_000, 4_000, 10_000, 10_000, 10_000,
      ]);
      expect(reconnectDelayMs(2, limits, 0)).to.equal(2_000);
    });
  });
});
