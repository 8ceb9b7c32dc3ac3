import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { silentLogger } from "@diskmesh/domain";
import { type AgentMethod, AgentServer, connectNats, type NatsConnection } from "@diskmesh/mbus";
import { Gate, type TestCertificates } from "@diskmesh/testkit";
import { type AskedLogs, digestsOf, put, sendsLogs } from "./log-sender.js";

/** A VM's agent that records the disks of which it was notified. */
export class TestAgent {
  /** Hints by disk cid. */
  readonly links = new Map<string, unknown>();
  /** Hints of persistent disks by disk cid. */
  readonly persistentDisks = new Map<string, unknown>();
  mountedCid: string | undefined;
  /** The disk that is mounted as the target of a copy. */
  migrationTargetCid: string | undefined;
  /** Makes the agent support migrate_disk. Takes effect with the next start. */
  canMigrate = false;
  /** The content of persistent disks, by their cids. */
  readonly contents = new Map<string, string>();
  readonly calls: string[] = [];
  /** Errors that the next method calls throw, in order; undefined lets a call succeed. */
  readonly failures: (Error | undefined)[] = [];
  /** Errors that the next call of a method throws, by method, e.g. "migrate". */
  readonly failureOf = new Map<string, Error>();
  readonly #gateOf = new Map<string, Gate>();
  /** Takes effect with the next start. */
  heartbeatIntervalMs = 60_000;
  heartbeat: object = {};
  /** Makes the agent run jobs as BOSH's agents do. Takes effect with the next start. */
  hasJobs = false;
  jobState = "unknown";
  /** The answers of get_state after each start, in order; "running" afterwards. */
  readonly startsAs: string[] = [];
  /** The answers of drain, in order; 0 afterwards. */
  readonly drains: number[] = [];
  /**
   * Called with changed settings, for which the agent restarts, as stock agents do. When undefined, the agent does not
   * support update_settings. Takes effect with the next start.
   */
  onSettings: ((settings: unknown) => void) | undefined;
  #settings = "";
  /** The agent's methods for log requests; empty for an agent without them. Takes effect with the next start. */
  logMethods: Readonly<Record<string, AgentMethod>> = sendsLogs((wanted) => this.#sendLogs(wanted));
  /** The duration of add_dynamic_disk, so that other requests run in the meantime. */
  addDelayMs = 0;
  #gate: Gate | undefined;
  #server: AgentServer | undefined;
  #nats: NatsConnection | undefined;

  constructor(
    readonly agentId: string,
    private readonly natsAddress: string,
    private readonly certs: Pick<TestCertificates, "files">,
  ) {}

  /** Returns a gate that stops the next call of a method before its effect. */
  gateOf(name: string): Gate {
    const gate = new Gate();
    this.#gateOf.set(name, gate);
    return gate;
  }

  /** Returns a gate that stops the next method call before its effect. */
  gate(): Gate {
    this.#gate = new Gate();
    return this.#gate;
  }

  async start(): Promise<void> {
    const nats = await connectNats({
      servers: [this.natsAddress],
      tls: this.certs.files(`disk-agent-${this.agentId}`),
      name: this.agentId,
      reconnect: { minDelayMs: 50, maxDelayMs: 200 },
    });
    this.#nats = nats;
    this.#server = new AgentServer({
      nats,
      agentId: this.agentId,
      methods: {
        ...(this.hasJobs && this.#jobMethods()),
        ...(this.onSettings && {
          update_settings: this.#method("async", "settings", ([now]) => this.#takeSettings(now)),
        }),
        list_disk: this.#method("async", "list", () => this.mountedCids, 0),
        list_dynamic_disks: this.#method("async", "list_dynamic", () => [...this.links.keys()], 0),
        add_dynamic_disk: this.#method("async", "add", async ([cid, hint]) => {
          if (this.addDelayMs > 0) await sleep(this.addDelayMs);
          this.links.set(String(cid), hint);
        }),
        remove_dynamic_disk: this.#method("sync", "remove", ([cid]) => this.links.delete(String(cid))),
        add_persistent_disk: this.#method("async", "add_persistent", ([cid, hint]) =>
          this.persistentDisks.set(String(cid), hint),
        ),
        remove_persistent_disk: this.#method("async", "remove_persistent", ([cid]) =>
          this.persistentDisks.delete(String(cid)),
        ),
        mount_disk: this.#method("async", "mount", ([cid]) => {
          const isBeside = this.mountedCid !== undefined && this.mountedCid !== cid;
          this[isBeside ? "migrationTargetCid" : "mountedCid"] = String(cid);
        }),
        unmount_disk: this.#method("async", "unmount", ([cid]) => {
          if (this.migrationTargetCid === cid) this.migrationTargetCid = undefined;
          else if (this.mountedCid === cid) this.mountedCid = undefined;
        }),
        ...this.logMethods,
        ...(this.canMigrate ? { migrate_disk: this.#method("async", "migrate", () => this.#migrate()) } : {}),
      },
      heartbeat: () => this.heartbeat,
      heartbeatIntervalMs: this.heartbeatIntervalMs,
      log: silentLogger,
    });
    await nats.whenConnected(AbortSignal.timeout(60_000));
  }

  get mountedCids(): string[] {
    return [this.mountedCid, this.migrationTargetCid].filter((cid) => cid !== undefined);
  }

  /** Copies the mounted disk to the migration target and mounts the target instead, as a stock agent does. */
  #migrate(): void {
    const { mountedCid = "", migrationTargetCid } = this;
    if (migrationTargetCid === undefined) throw new Error("there is no migration target");
    this.contents.set(migrationTargetCid, this.contents.get(mountedCid) ?? "");
    this.mountedCid = migrationTargetCid;
    this.migrationTargetCid = undefined;
  }

  /**
   * Restarts the agent when the settings have changed. The caller then gets no answer, because the restarted agent does
   * not know the task of the call.
   */
  async #takeSettings(settings: unknown): Promise<string> {
    // Omitted settings stay unchanged.
    if ((settings as { readonly mbus?: unknown }).mbus === undefined) return "ok";
    if (JSON.stringify(settings) === this.#settings) return "ok";
    this.#settings = JSON.stringify(settings);
    this.onSettings?.(settings);
    const [server, nats] = [this.#server, this.#nats];
    await nats?.close();
    void server?.close();
    await this.start();
    return "ok";
  }

  async stop(): Promise<void> {
    await this.#server?.close();
    await this.#nats?.close();
    this.#server = undefined;
    this.#nats = undefined;
  }

  #jobMethods(): Record<string, AgentMethod> {
    return {
      run_script: this.#method("async", "script", () => {}),
      drain: this.#method("async", "drain", () => this.drains.shift() ?? 0),
      stop: this.#method(
        "async",
        "stop",
        () => {
          this.jobState = "stopped";
          return "stopped";
        },
        0,
      ),
      start: this.#method(
        "sync",
        "start",
        () => {
          this.jobState = this.startsAs.shift() ?? "running";
          return "started";
        },
        0,
      ),
      get_state: this.#method(
        "sync",
        "get_state",
        () => ({
          job_state: this.jobState,
          processes: [{ name: "web", state: this.jobState }],
        }),
        0,
      ),
    };
  }

  async #sendLogs(wanted: AskedLogs): Promise<object> {
    const text = `logs of ${this.agentId}`;
    const { caFile } = this.certs.files(`disk-agent-${this.agentId}`);
    const status = await put(wanted, text, readFileSync(caFile));
    if (status !== 201) throw new Error(`Error executing PUT, response was ${status}`);
    return { sha1: digestsOf(text) };
  }

  #method(
    mode: "sync" | "async",
    name: string,
    effect: (args: readonly unknown[]) => unknown,
    minArguments = 1,
  ): AgentMethod {
    return {
      mode,
      minArguments,
      run: async (args) => {
        this.calls.push([name, ...args.slice(0, 1)].join(" "));
        const gate = this.#gateOf.get(name) ?? this.#gate;
        if (!this.#gateOf.delete(name)) this.#gate = undefined;
        await gate?.pass();
        const failure = this.failureOf.get(name) ?? this.failures.shift();
        this.failureOf.delete(name);
        if (failure) throw failure;
        return (await effect(args)) ?? {};
      },
    };
  }
}
