import { join } from "node:path";
import {
  ConfigServiceDefinition,
  DeploymentServiceDefinition,
  DynamicDiskServiceDefinition,
  type Task,
  TaskServiceDefinition,
} from "@diskmesh/api/director";
import { HealthDefinition } from "@diskmesh/api/grpc-health";
import { TestAgent } from "@diskmesh/director/testing";
import { identityUri } from "@diskmesh/domain";
import type { Client } from "@diskmesh/rpc";
import type { NatsServer, ServiceProcess } from "@diskmesh/testkit";
import { ServiceGroup } from "../mesh/service-group.js";
import { FileCloud } from "./file-cloud.js";

/** One certificate for the agents of all VMs, whose ids nobody knows before they are made. */
const VM_AGENTS = "vm-agents";
const DISPATCHERS = ["dispatcher-1", "dispatcher-2"];
const CLOUD_CONFIG = "azs:\n- name: z1\ndisk_types:\n- {name: fast, disk_size: 1024}\n";
const AGENT_LOOK_MS = 50;
const LEADS_TIMEOUT_MS = 2_000;

export interface TakeoverMeshOptions {
  /** Names of the directors. */
  readonly directors: readonly string[];
  /** The `tablet` part of their config; a folder when absent. */
  readonly tablet?: object | undefined;
  /** Laid over the rest of it. */
  readonly director?: object;
}

/** Directors and two dispatchers, as processes that tests kill; the infrastructure is a folder, its VMs' agents are here. */
export class TakeoverMesh implements AsyncDisposable {
  readonly cloud: FileCloud;
  /** An operator's. */
  readonly clients;
  /** By agent id. */
  readonly agents = new Map<string, TestAgent>();
  readonly #healths = new Map<string, Client<typeof HealthDefinition>>();
  #closing = false;
  #lookingAfterAgents: Promise<void> = Promise.resolve();

  private constructor(
    readonly group: ServiceGroup,
    private readonly nats: NatsServer,
    readonly options: TakeoverMeshOptions,
  ) {
    this.cloud = new FileCloud(join(group.folder, "cloud"));
    const of = { names: options.directors, defaultDeadlineMs: 60_000 };
    this.clients = {
      configs: group.client(ConfigServiceDefinition, "director", of),
      deployments: group.client(DeploymentServiceDefinition, "director", of),
      disks: group.client(DynamicDiskServiceDefinition, "director", of),
      tasks: group.client(TaskServiceDefinition, "director", of),
    };
  }

  static async start(options: TakeoverMeshOptions): Promise<TakeoverMesh> {
    const names = [...options.directors, ...DISPATCHERS];
    const group = await ServiceGroup.prepare({ names, hostIds: [], moreAgents: [VM_AGENTS] });
    try {
      const user = identityUri({ role: "disk-agent", name: VM_AGENTS });
      const nats = await group.startNats([{ user, publish: ["hm.agent.*.*", "director.>"], subscribe: ["agent.*"] }]);
      const mesh = new TakeoverMesh(group, nats, options);
      await group.start(mesh.#dispatchers(), mesh.#directors());
      mesh.#lookingAfterAgents = mesh.#lookAfterAgents();
      await mesh.clients.configs.updateConfig({ type: "cloud", content: CLOUD_CONFIG });
      return mesh;
    } catch (error) {
      await group[Symbol.asyncDispose]();
      throw error;
    }
  }

  process(name: string): ServiceProcess {
    return this.group.process(name);
  }

  /** Asks for a deployment of a group of so many VMs. */
  deploy(name: string, instances: number, wait = false): Promise<{ readonly task?: Task | undefined }> {
    const manifest = `name: ${name}\ninstance_groups:\n- {name: db, instances: ${instances}, azs: [z1]}\n`;
    return this.clients.deployments.deploy({ manifest, wait });
  }

  get directors(): readonly ServiceProcess[] {
    return this.options.directors.map((name) => this.process(name));
  }

  get dispatchers(): readonly ServiceProcess[] {
    return DISPATCHERS.map((name) => this.process(name));
  }

  /** Whether a director leads, as it says itself. One that does not answer does not. */
  async leads(name: string): Promise<boolean> {
    const client = this.#healths.get(name) ?? this.group.client(HealthDefinition, "director", { names: [name] });
    this.#healths.set(name, client);
    const answer = await client.check({ service: "leader" }, { deadlineMs: LEADS_TIMEOUT_MS }).catch(() => undefined);
    return answer?.status === "SERVING";
  }

  /** Of a director; `dispatchers` are those that it knows. */
  configOf(name: string, dispatchers: readonly string[] = DISPATCHERS): object {
    const { group, options } = this;
    return {
      listen: group.listen(name),
      tls: group.certificates.files("director"),
      tablet: options.tablet ?? { storage: group.dataFolder(name) },
      dispatcher: { address: dispatchers.map((dispatcher) => group.address(dispatcher)) },
      nats: { servers: [this.nats.address] },
      dynamicDisks: { enabled: true },
      cpi: { retryTimeoutMs: 120_000 },
      ...options.director,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing = true;
    await this.#lookingAfterAgents;
    await Promise.all([...this.agents.values()].map((agent) => agent.stop()));
    await this.group[Symbol.asyncDispose]();
  }

  #dispatchers() {
    const { execPath } = this.cloud;
    const cpis = [{ name: "files", type: "files", execPath }];
    const executables = { jobsFolder: this.group.folder, maxConcurrentCalls: 20 };
    const config = { registry: { address: "127.0.0.1:1" }, cpis, executables };
    return DISPATCHERS.map((name) => ({ name, service: "cpi-dispatcher", config }) as const);
  }

  #directors() {
    const { directors } = this.options;
    // Which of them leads nobody knows.
    const waitFor = directors.length === 1 ? "serving" : "listening";
    return directors.map((name) => ({ name, service: "director", config: this.configOf(name), waitFor }) as const);
  }

  /** Each VM has its agent while it is there. */
  async #lookAfterAgents(): Promise<void> {
    const files = () => this.group.certificates.files(`disk-agent-${VM_AGENTS}`);
    while (!this.#closing) {
      const wanted = new Set(this.cloud.vms().values());
      for (const agentId of wanted) {
        if (agentId === "" || this.agents.has(agentId)) continue;
        const agent = new TestAgent(agentId, this.nats.address, { files });
        this.agents.set(agentId, agent);
        await agent.start();
      }
      for (const [agentId, agent] of this.agents) {
        if (wanted.has(agentId)) continue;
        this.agents.delete(agentId);
        await agent.stop();
      }
      await new Promise((resolve) => setTimeout(resolve, AGENT_LOOK_MS));
    }
  }
}
