import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { identityUri, parseHostId } from "@diskmesh/domain";
import { mbusPermissions } from "@diskmesh/mbus";
import { type Client, createClient, type ServiceDefinition, type TlsFiles } from "@diskmesh/rpc";
import {
  freePort,
  type NatsOptions,
  type NatsServer,
  type NatsUser,
  ServiceProcess,
  startNats,
  type TestCertificates,
  temporaryFolder,
  testCertificates,
  type WaitFor,
} from "@diskmesh/testkit";
import { repositoryFolder } from "../repository-folder.js";
import { makeDeviceFile } from "./device-files.js";

export type ServiceName = "director" | "cpi-dispatcher" | "disk-registry" | "disk-agent";

/** Many start at once, and the machine may have other things to do. */
const START_TIMEOUT_MS = 300_000;
/** Starting is all processor time. */
const STARTED_TOGETHER = 4;

/** What a process can do by itself, when whatever it needs may have been killed as well. */
const RESTART_WAITS_FOR: Readonly<Record<ServiceName, WaitFor>> = {
  director: "leading",
  "cpi-dispatcher": "serving",
  "disk-registry": "serving",
  "disk-agent": "listening",
};

export interface ServiceGroupOptions {
  /** Names of processes other than agents, and of other things that listen: each gets an address. */
  readonly names: readonly string[];
  /** Hosts that have an agent; the agent's process is named after its host. */
  readonly hostIds: readonly string[];
  /** Certificates of agents that are no process of ours. */
  readonly moreAgents?: readonly string[];
  /** Of all of them, and of the operator; those of the test process when absent. */
  readonly certificates?: TestCertificates;
  /** Where each of them listens; all on 127.0.0.1 when absent. */
  readonly places?: Places;
}

/** Addresses for processes by name, and what runs a process where it has its address. */
export interface Places {
  host(name: string): string;
  launcher(name: string): readonly string[];
}

export interface ServicePlan {
  readonly name: string;
  readonly service: ServiceName;
  /**
   * Laid over where it listens and its certificates. A registry or an agent with `tuning` in it takes limits of the test:
   * the program for tests runs it.
   */
  readonly config: object;
  /** Of each start; when absent the group's start waits until it serves, and a restart for nobody else. */
  readonly waitFor?: WaitFor;
  readonly env?: Readonly<Record<string, string>>;
  /** The program, of another version; that of the repository when absent. */
  readonly mainFile?: string;
  /** Runs the program and becomes it; that of its place when absent. */
  readonly launcher?: readonly string[];
}

export interface HostAgentOptions {
  readonly registry: string | readonly string[];
  readonly az?: string;
  readonly devices: number;
  readonly deviceSizeBytes: number;
  readonly nats: NatsServer;
}

/** What was compiled of this repository's. */
export function programOf(service: ServiceName, config: object = {}): string {
  const program = "tuning" in config ? "testing/tuned-main.js" : "main.js";
  return join(repositoryFolder, "services", service, "dist", program);
}

/** Real service processes that belong together: one folder, one authority, and an address for each. */
export class ServiceGroup implements AsyncDisposable {
  readonly folder = temporaryFolder();
  readonly processes = new Map<string, ServiceProcess>();
  readonly #open: { close(): void | Promise<void> }[] = [];

  private constructor(
    readonly certificates: TestCertificates,
    readonly hostIds: readonly string[],
    private readonly addresses: ReadonlyMap<string, string>,
    private readonly places?: Places,
  ) {
    mkdirSync(join(this.folder, "data"));
  }

  /** Makes certificates and finds ports; starts nothing. */
  static async prepare({
    names,
    hostIds,
    moreAgents = [],
    certificates,
    places,
  }: ServiceGroupOptions): Promise<ServiceGroup> {
    const addresses = new Map<string, string>();
    for (const name of [...names, ...hostIds])
      addresses.set(name, `${places?.host(name) ?? "127.0.0.1"}:${await freePort()}`);
    const own = certificates ?? (await testCertificates({ hostIds: [...hostIds, ...moreAgents] }));
    return new ServiceGroup(own, hostIds, addresses, places);
  }

  get operatorFiles(): TlsFiles {
    return this.certificates.files("operator");
  }

  address(name: string): string {
    const address = this.addresses.get(name);
    if (address === undefined) throw new Error(`no address of ${name}`);
    return address;
  }

  listen(name: string): { host: string; port: number } {
    const [host = "", port] = this.address(name).split(":");
    return { host, port: Number(port) };
  }

  /** Where a service keeps its state. */
  dataFolder(name: string): string {
    return join(this.folder, "data", name);
  }

  /** Where the agent of a host keeps its exports and links. */
  baseFolder(hostId: string): string {
    return join(this.folder, "agents", hostId);
  }

  deviceFile(hostId: string, index: number): string {
    return join(this.folder, "devices", hostId, `${index + 1}.img`);
  }

  /** What every agent's config holds beside its devices. */
  agentConfig(hostId: string, registry: string | readonly string[], az = "z1"): object {
    return {
      hostId,
      az,
      rack: `rack-${hostId}`,
      registry: { address: registry },
      baseFolder: this.baseFolder(hostId),
    };
  }

  /** An agent that is on mbus too, with new device files of its own. */
  hostAgent(hostId: string, { registry, az = "z1", devices, deviceSizeBytes, nats }: HostAgentOptions): ServicePlan {
    const config = {
      ...this.agentConfig(hostId, registry, az),
      devices: Array.from({ length: devices }, (_, index) => ({
        deviceId: `${hostId}-device-${index + 1}`,
        path: makeDeviceFile(this.deviceFile(hostId, index), deviceSizeBytes),
      })),
      nats: { servers: [nats.address], tls: this.certificates.files(`disk-agent-${hostId}`) },
    };
    return { name: hostId, service: "disk-agent", config };
  }

  process(name: string): ServiceProcess {
    const process = this.processes.get(name);
    if (process === undefined) throw new Error(`no process ${name}`);
    return process;
  }

  /** Starts the processes of each of these in turn, and waits until they serve, agents that they are registered too. */
  async start(...plans: readonly (readonly ServicePlan[])[]): Promise<void> {
    for (const plan of plans.flat()) this.processes.set(plan.name, this.#process(plan));
    for (const plan of plans)
      for (let first = 0; first < plan.length; first += STARTED_TOGETHER)
        await Promise.all(plan.slice(first, first + STARTED_TOGETHER).map((one) => this.#startOne(one)));
  }

  async #startOne({ name, waitFor }: ServicePlan): Promise<void> {
    await this.process(name).start();
    if (waitFor === undefined) await this.process(name).waitFor("serving");
  }

  /** Starts a nats-server for the director and the agents of all hosts, which ends with the group. */
  async startNats(
    moreUsers: readonly NatsUser[] = [],
    users?: Pick<NatsOptions, "authFile" | "caFile">,
  ): Promise<NatsServer> {
    const identities = [
      { role: "director", name: "" } as const,
      ...this.hostIds.map((hostId) => ({ role: "disk-agent", name: parseHostId(hostId) }) as const),
    ];
    const own = identities.map((identity) => ({ user: identityUri(identity), ...mbusPermissions(identity) }));
    const nats = await startNats({
      folder: this.folder,
      certs: this.certificates,
      users: [...own, ...moreUsers],
      ...users,
      host: this.places?.host("nats"),
      launcher: this.places?.launcher("nats"),
    });
    this.closeLater({ close: () => nats.kill() });
    return nats;
  }

  /** An operator's client of a service, or of several processes of it, of which one leads. */
  client<Definition extends ServiceDefinition>(
    definition: Definition,
    service: ServiceName,
    { names = [service] as readonly string[], defaultDeadlineMs = 30_000 } = {},
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

  /** What is added last is closed first, and all of it when the processes have ended. */
  closeLater(one: { close(): void | Promise<void> }): void {
    this.#open.unshift(one);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.processes.values()].map((process) => process.kill()));
    for (const one of this.#open) await one.close();
  }

  #process(plan: ServicePlan): ServiceProcess {
    const { name, service, config, waitFor = RESTART_WAITS_FOR[service], env } = plan;
    const isAgent = service === "disk-agent";
    return new ServiceProcess({
      name,
      mainFile: plan.mainFile ?? programOf(service, config),
      folder: this.folder,
      config: {
        listen: this.listen(name),
        tls: this.certificates.files(isAgent ? `disk-agent-${name}` : service),
        ...config,
      },
      // As deploy/local does: a hung device file holds a thread of the pool.
      env: { ...(isAgent ? { UV_THREADPOOL_SIZE: "64" } : {}), ...env },
      launcher: plan.launcher ?? this.places?.launcher(name),
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
