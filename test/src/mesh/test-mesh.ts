import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { HealthDefinition } from "@diskmesh/api/grpc-health";
import { DiskAgentServiceDefinition } from "@diskmesh/api/internal";
import type { Device } from "@diskmesh/api/registry";
import { HttpClient } from "@diskmesh/director/testing";
import { endLeftBlockDevices } from "@diskmesh/disk-agent/testing";
import { identityUri, parseHostId } from "@diskmesh/domain";
import { AgentClient, connectNats, mbusPermissions } from "@diskmesh/mbus";
import { type Client, createClient, type ServiceDefinition, type TlsFiles } from "@diskmesh/rpc";
import { ensureTablet } from "@diskmesh/tablet/testing";
import {
  freePort,
  type NatsServer,
  ServiceProcess,
  startNats,
  type TestCertificates,
  temporaryFolder,
  testCertificates,
  type WaitFor,
} from "@diskmesh/testkit";
import { type Clients, DEFINITIONS } from "./clients.js";
import {
  HTTPS,
  type MeshPlan,
  type NatsUsers,
  nameOf,
  type PlacedMesh,
  type ProcessPlan,
  programOf,
  type ServiceName,
  usualConfig,
} from "./plan.js";
import { certificateEnvironment, type Ended, typeCommand } from "./type-command.js";

/** Timeout in ms: many processes start at once, and the machine may be busy. */
const START_TIMEOUT_MS = 300_000;
/** Maximum concurrent starts. More would not be faster, because a start uses only CPU time. */
const STARTED_TOGETHER = 4;
const DEADLINE_MS = 30_000;
const LEADS_TIMEOUT_MS = 2_000;
/** Name in the certificate of all agents of VMs. */
const VM_AGENTS = "vm-agents";

/** Condition that a restarted process reaches by itself, even when the processes that it needs were killed, too. */
const RESTART_WAITS_FOR: Readonly<Record<ServiceName, WaitFor>> = {
  director: "leading",
  "cpi-dispatcher": "serving",
  "disk-registry": "serving",
  "disk-agent": "listening",
};

/** Real processes with a common folder, certificate authority and addresses. Tests may kill and restart them. */
export class TestMesh implements PlacedMesh, AsyncDisposable {
  readonly folder = temporaryFolder();
  readonly processes = new Map<string, ServiceProcess>();
  /** Clients of an operator, for the services of the plan. */
  readonly clients: Clients;
  readonly #agentClients = new Map<string, Client<typeof DiskAgentServiceDefinition>>();
  readonly #healthClients = new Map<string, Client<typeof HealthDefinition>>();
  readonly #open: { close(): void | Promise<void> }[] = [];
  #nats: NatsServer | undefined;

  private constructor(
    readonly plan: MeshPlan,
    readonly certificates: TestCertificates,
    private readonly places: ReadonlyMap<string, string>,
  ) {
    mkdirSync(join(this.folder, "data"));
    const clients = Object.entries(DEFINITIONS).flatMap(([service, definitions]) =>
      this.names(service as ServiceName).length === 0
        ? []
        : Object.entries(definitions).map(([name, definition]) => [
            name,
            this.client(definition, service as ServiceName),
          ]),
    );
    this.clients = Object.fromEntries(clients);
  }

  /** Starts all processes, and waits until they serve. */
  static async start(plan: MeshPlan): Promise<TestMesh> {
    const names = ["nats", ...plan.processes.map(nameOf), ...(plan.listeners ?? [])];
    const places = new Map<string, string>();
    for (const name of names) places.set(name, `${plan.hostOf?.(name) ?? "127.0.0.1"}:${await freePort()}`);
    const agents = plan.processes.filter(({ service }) => service === "disk-agent").map(nameOf);
    const hostIds = plan.vmAgents ? [...agents, VM_AGENTS] : agents;
    const mesh = new TestMesh(plan, plan.certificates ?? (await testCertificates({ hostIds })), places);
    try {
      const users = await plan.prepare?.(mesh);
      if (mesh.hasNats) mesh.#nats = await mesh.#startNats(users);
      await mesh.add(...plan.processes);
      return mesh;
    } catch (error) {
      await mesh[Symbol.asyncDispose]();
      throw error;
    }
  }

  get hostIds(): readonly string[] {
    return this.names("disk-agent");
  }

  /** True when NATS runs; directors need it. */
  get hasNats(): boolean {
    return this.plan.nats ?? this.names("director").length > 0;
  }

  get nats(): NatsServer {
    if (this.#nats === undefined) throw new Error("the mesh has no NATS");
    return this.#nats;
  }

  get operatorFiles(): TlsFiles {
    return this.certificates.files("operator");
  }

  get vmAgentFiles(): TlsFiles {
    return this.certificates.files(`disk-agent-${VM_AGENTS}`);
  }

  /** Environment variables with which the `diskmesh` command finds the mesh and its certificate. */
  get commandEnvironment(): Readonly<Record<string, string>> {
    const variables = { director: "DIRECTOR", "cpi-dispatcher": "DISPATCHER", "disk-registry": "REGISTRY" } as const;
    const services = Object.entries(variables) as [ServiceName, string][];
    const addresses = services.map(([service, variable]) => [
      `DISKMESH_${variable}`,
      this.addresses(service).join(","),
    ]);
    return {
      ...certificateEnvironment(this.operatorFiles),
      ...Object.fromEntries(addresses.filter(([, address]) => address !== "")),
    };
  }

  /** Runs a `diskmesh` command line as an operator, in the folder of the mesh. */
  typed(...args: readonly string[]): Promise<Ended> {
    return typeCommand(args, this.commandEnvironment, this.folder);
  }

  /** Returns the names of the plan's processes of a service. */
  names(service: ServiceName): string[] {
    return this.plan.processes.filter((plan) => plan.service === service).map(nameOf);
  }

  address(name: string): string {
    const address = this.places.get(name);
    if (address === undefined) throw new Error(`no address of ${name}`);
    return address;
  }

  addresses(service: ServiceName): string[] {
    return this.names(service).map((name) => this.address(name));
  }

  listen(name: string): { host: string; port: number } {
    const [host = "", port] = this.address(name).split(":");
    return { host, port: Number(port) };
  }

  dataFolder(name: string): string {
    return join(this.folder, "data", name);
  }

  baseFolder(hostId: string): string {
    return join(this.folder, "agents", hostId);
  }

  /** Returns the path of a host's link to a dynamic disk. */
  dynamicDisk(hostId: string, diskCid: string): string {
    return join(this.baseFolder(hostId), "data/dynamic_disks", diskCid);
  }

  deviceFile(hostId: string, index: number): string {
    return join(this.folder, "devices", hostId, `${index + 1}.img`);
  }

  /** Returns the plan's processes of a service. Any of them may lead. */
  all(service: ServiceName): ServiceProcess[] {
    return this.names(service).map((name) => this.process(name));
  }

  process(name: string): ServiceProcess {
    const process = this.processes.get(name);
    if (process === undefined) throw new Error(`no process ${name}`);
    return process;
  }

  /** Starts processes in this order, agents last. Waits until they serve, and until agents are registered. */
  async add(...plans: readonly ProcessPlan[]): Promise<void> {
    for (const plan of plans) this.processes.set(nameOf(plan), this.#process(plan));
    const isAgent = ({ service }: ProcessPlan) => service === "disk-agent";
    for (const stage of [plans.filter((plan) => !isAgent(plan)), plans.filter(isAgent)])
      for (let first = 0; first < stage.length; first += STARTED_TOGETHER)
        await Promise.all(stage.slice(first, first + STARTED_TOGETHER).map((one) => this.#start(one)));
  }

  /** Returns the complete initial config of a process. */
  configOf(plan: ProcessPlan): object {
    const { service } = plan;
    const name = nameOf(plan);
    return {
      listen: this.listen(name),
      tls: this.certificates.files(service === "disk-agent" ? `disk-agent-${name}` : service),
      ...usualConfig(this, plan),
      ...(typeof plan.config === "function" ? plan.config(this) : plan.config),
    };
  }

  /** Returns an operator's client of a service, or of some of its processes; it follows the leader. */
  client<Definition extends ServiceDefinition>(
    definition: Definition,
    service: ServiceName,
    { names = this.names(service), defaultDeadlineMs = this.plan.deadlineMs ?? DEADLINE_MS }: ClientOptions = {},
  ): Client<Definition> {
    const client = createClient(definition, {
      address: names.map((name) => this.address(name)),
      tls: this.operatorFiles,
      serverRole: service,
      ...(service === "disk-agent" ? { serverName: names[0] ?? "" } : {}),
      defaultDeadlineMs,
    });
    this.closeLater(client);
    return client;
  }

  /** Returns a client of the director's HTTPS API at the listener `HTTPS`. The user's password is "pw-USER". */
  http(user = "admin"): HttpClient {
    return new HttpClient(this.certificates, this.listen(HTTPS).port, `${user}:pw-${user}`);
  }

  /** Returns an operator's client of a host's agent. */
  agentClient(hostId: string): Client<typeof DiskAgentServiceDefinition> {
    const known = this.#agentClients.get(hostId);
    const client = known ?? this.client(DiskAgentServiceDefinition, "disk-agent", { names: [hostId] });
    this.#agentClients.set(hostId, client);
    return client;
  }

  /** Returns the processes of a service that lead: one, or none during a takeover. */
  async leading(service: ServiceName): Promise<ServiceProcess[]> {
    const leads = await Promise.all(this.names(service).map((name) => this.leads(service, name)));
    return this.all(service).filter((_, index) => leads[index]);
  }

  /** Returns whether a process says that it leads; false when it does not answer. */
  async leads(service: ServiceName, name: string): Promise<boolean> {
    const client = this.#healthClients.get(name) ?? this.client(HealthDefinition, service, { names: [name] });
    this.#healthClients.set(name, client);
    const answer = await client.check({ service: "leader" }, { deadlineMs: LEADS_TIMEOUT_MS }).catch(() => undefined);
    return answer?.status === "SERVING";
  }

  /** Returns a director's NATS client for agents in VMs and on hosts. */
  async agents(tls = this.certificates.files("director")): Promise<AgentClient> {
    const nats = await connectNats({ servers: [this.nats.address], tls, name: "director" });
    await nats.whenConnected(AbortSignal.timeout(60_000));
    const limits = { requestTimeoutMs: 10_000, callTimeoutMs: 60_000, taskPollIntervalMs: 20 };
    const agents = new AgentClient({ nats, directorId: "the-test", ...limits });
    this.closeLater(nats);
    this.closeLater(agents);
    return agents;
  }

  async device(deviceId: string): Promise<Device> {
    const { device } = await this.clients.registry.getDevice({ deviceId });
    if (device === undefined) throw new Error("the answer has no device");
    return device;
  }

  closeLater(one: { close(): void | Promise<void> }): void {
    this.#open.unshift(one);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.processes.values()].map((process) => process.kill()));
    for (const hostId of this.hostIds) await endLeftBlockDevices(this.baseFolder(hostId));
    for (const one of this.#open) await one.close();
  }

  async #start({ waitFor, ...plan }: ProcessPlan): Promise<void> {
    const process = this.process(nameOf(plan));
    await this.#ensureTablet(plan, process);
    await process.start();
    if (waitFor === undefined) await process.waitFor("serving");
  }

  async #ensureTablet({ service }: ProcessPlan, { config }: ServiceProcess): Promise<void> {
    if (!("tablet" in config)) return;
    const name = service === "director" ? "director" : "registry";
    await ensureTablet({ name, ...(config.tablet as { readonly storage: string }) });
  }

  async #startNats(users: NatsUsers | undefined): Promise<NatsServer> {
    const identities = [
      { role: "director", name: "" } as const,
      ...this.hostIds.map((hostId) => ({ role: "disk-agent", name: parseHostId(hostId) }) as const),
    ];
    const inVms = { publish: ["hm.agent.*.*", "director.>"], subscribe: ["agent.*"] };
    const nats = await startNats({
      folder: this.folder,
      certs: this.certificates,
      users: [
        ...identities.map((identity) => ({ user: identityUri(identity), ...mbusPermissions(identity) })),
        ...(this.plan.vmAgents ? [{ user: identityUri({ role: "disk-agent", name: VM_AGENTS }), ...inVms }] : []),
      ],
      ...users,
      ...this.listen("nats"),
    });
    this.closeLater({ close: () => nats.kill() });
    return nats;
  }

  #process(plan: ProcessPlan): ServiceProcess {
    const { service, waitFor = RESTART_WAITS_FOR[service], env, launcher } = plan;
    const config = this.configOf(plan);
    const name = nameOf(plan);
    const isAgent = service === "disk-agent";
    return new ServiceProcess({
      name,
      mainFile: plan.mainFile ?? programOf(service, config),
      folder: this.folder,
      config,
      // Large thread pool, as in deploy/local, because a hung device file blocks one of its threads.
      env: { ...(isAgent ? { UV_THREADPOOL_SIZE: "64" } : {}), ...(typeof env === "function" ? env(this) : env) },
      launcher: launcher?.(this),
      health: {
        address: this.address(name),
        tls: this.operatorFiles,
        serverRole: service,
        ...(isAgent ? { serverName: name } : {}),
      },
      waitFor,
      startTimeoutMs: START_TIMEOUT_MS,
    });
  }
}

interface ClientOptions {
  readonly names?: readonly string[];
  readonly defaultDeadlineMs?: number;
}
