import { setTimeout as sleep } from "node:timers/promises";
import { type Logger, silentLogger } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { context, createContextKey } from "@opentelemetry/api";
import { AgentClient } from "../agent-client.js";
import { type AgentMethod, AgentServer } from "../agent-server.js";
import type { NatsConnection } from "../connection.js";
import { TestServer } from "./test-server.js";

/** Generous, because a busy machine delays requests: tests expect immediate failures in less than half of it. */
export const timing = { requestTimeoutMs: 30_000, callTimeoutMs: 60_000, taskPollIntervalMs: 20 };
/** Limit of the bytes of requests that the agent runs at the same time. */
export const RUNNING_SIZE_BYTES = 1024 * 1024;
/** Context key whose value the agent's method "trace" returns. */
export const TRACE = createContextKey("trace of the test");

export const until = (condition: () => boolean): Promise<boolean> => eventually(condition);

/** A director and the agent of host-1, connected to a real nats-server that has a second agent user, host-2. */
export class MbusScene {
  server!: TestServer;
  director!: NatsConnection;
  agent!: NatsConnection;
  agentServer!: AgentServer;
  client!: AgentClient;
  /** Arguments passed to the failing methods. */
  readonly received: unknown[] = [];
  /** Methods whose call was cancelled. */
  aborted: string[] = [];
  #hangs = 0;
  /** Ends the hanging call. */
  release = (): void => {};

  /** Shares one nats-server among all tests of a suite, with a new agent and client for each test. */
  static forAllTests(): MbusScene {
    const scene = new MbusScene();
    before(() => scene.#connect());
    beforeEach(() => scene.#start());
    afterEach(() => scene.#stop());
    after(() => scene.server?.stop());
    return scene;
  }

  startAgent(log: Logger = silentLogger): void {
    this.agentServer = new AgentServer({
      nats: this.agent,
      agentId: "host-1",
      methods: this.#methods(),
      heartbeat: () => ({ job_state: "running" }),
      heartbeatIntervalMs: 50,
      log,
      limits: { maxRunningRequests: 1, maxRunningRequestBytes: RUNNING_SIZE_BYTES },
    });
  }

  /** Waits until the agent's subscription has reached the server, so that requests of the other connection find it. */
  async agentReady(): Promise<void> {
    await eventually(() => this.client.call("host-1", "ping", [], { timeoutMs: 100 }));
  }

  hasBegun(): Promise<boolean> {
    return until(() => this.#hangs > 0);
  }

  /** Waits until the agent is polled for a long request. By then the client knows that the request runs as a task. */
  async polled(): Promise<void> {
    let polls = 0;
    const spy = this.agent.subscribe("agent.host-1", ({ data }) => {
      if (JSON.parse(Buffer.from(data).toString()).method === "get_task") polls++;
    });
    await until(() => polls > 0);
    spy.unsubscribe();
  }

  async #connect(): Promise<void> {
    this.server = await TestServer.start(["host-1", "host-2"]);
    this.director = await this.server.connect("director");
    this.agent = await this.server.connect("disk-agent-host-1");
    await until(() => this.director.isConnected && this.agent.isConnected);
  }

  async #start(): Promise<void> {
    this.aborted = [];
    this.#hangs = 0;
    this.startAgent();
    this.client = new AgentClient({ nats: this.director, directorId: "process-1", ...timing });
    await this.agentReady();
  }

  async #stop(): Promise<void> {
    this.release();
    this.client.close();
    await this.agentServer.close();
  }

  #methods(): Record<string, AgentMethod> {
    // The error repeats all arguments.
    const refuse: AgentMethod["run"] = async (args) => {
      this.received.push(args);
      throw new Error(`cannot do it with ${JSON.stringify(args)}`);
    };
    const hang = () =>
      new Promise<void>((resolve) => {
        this.#hangs++;
        this.release = resolve;
      });
    const endless: AgentMethod["run"] = (_, signal) =>
      new Promise((_resolve, reject) =>
        signal.addEventListener("abort", () => {
          this.aborted.push("endless");
          reject(signal.reason);
        }),
      );
    return {
      echo: { mode: "sync", minArguments: 1, run: async (args) => args },
      nothing: { mode: "sync", minArguments: 0, run: async () => undefined },
      fail: {
        mode: "sync",
        minArguments: 0,
        changes: true,
        run: () => Promise.reject(new Error("the disk is on fire")),
      },
      long: { mode: "async", minArguments: 0, run: async () => sleep(100, { done: true }) },
      long_fail: { mode: "async", minArguments: 0, run: () => Promise.reject(new Error("no link")) },
      endless: { mode: "async", minArguments: 0, run: endless },
      hang: { mode: "sync", minArguments: 0, run: hang },
      long_hang: { mode: "async", minArguments: 0, run: hang },
      trace: { mode: "async", minArguments: 0, run: async () => context.active().getValue(TRACE) },
      add_persistent_disk: { mode: "async", minArguments: 2, run: refuse },
      add_dynamic_disk: { mode: "sync", minArguments: 2, run: refuse },
      mount_disk: { mode: "async", minArguments: 2, changes: true, run: async (args) => ({ mounted: args }) },
      update_settings: { mode: "async", minArguments: 1, run: refuse },
      huge: { mode: "sync", minArguments: 0, run: async () => "x".repeat(2 ** 20) },
    };
  }
}
