import { appendFileSync, copyFileSync, existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import {
  ConfigServiceDefinition,
  DeploymentServiceDefinition,
  DynamicDiskServiceDefinition,
  EventServiceDefinition,
  type Instance,
  LifecycleServiceDefinition,
  StemcellServiceDefinition,
  type Task,
  TaskServiceDefinition,
  VmServiceDefinition,
} from "@diskmesh/api/director";
import { agentAccess, HttpClient, httpUsers } from "@diskmesh/director/testing";
import { AgentClient, connectNats } from "@diskmesh/mbus";
import { createAuthority, openAgentAuthority } from "@diskmesh/pki";
import { installCpi, pidOf, powerOffAll } from "@diskmesh/process-cpi";
import { eventually, type NatsServer, stemcellFile } from "@diskmesh/testkit";
import { ServiceGroup } from "../mesh/service-group.js";
import { type Ended, typeCommand } from "../mesh/type-command.js";
import { uploadOf } from "../mesh/upload-of.js";

const LIMITS = { defaultDeadlineMs: 240_000 };

const CLOUD_CONFIG = `
azs: [{ name: z1 }]
disk_types: [{ name: small, disk_size: 1 }]
vm_types: [{ name: small }]
networks: [{ name: any, type: dynamic }]
`;

export interface ProcessVmsOptions {
  /** Properties of the CPI about agents. */
  readonly agent?: { readonly path?: string; readonly heartbeat_interval_ms?: number };
  /** Of the dispatcher, before the CPI of processes: the first one is the default. */
  readonly moreCpis?: readonly object[];
  /** Laid over the director's config; `agents` over its agents. */
  readonly director?: { readonly agents?: object; readonly metrics?: object };
  /** The `tablet` part of the director's config, of a store that two can share: then another one stands by. */
  readonly sharedTablet?: object;
}

/** Where the HTTPS face of the director that leads first is, if another stands by at the same port of 127.0.0.1. */
const LEADER_HOST = "127.0.0.2";

interface DirectorSettings {
  readonly agents: { readonly certificates?: object };
  readonly http?: object;
}

/** A director and a dispatcher whose CPI is the process CPI: VMs are agents in folders. */
export class ProcessVmsMesh implements AsyncDisposable {
  readonly stateFolder: string;
  #director: DirectorSettings = { agents: {} };

  private constructor(
    readonly group: ServiceGroup,
    readonly nats: NatsServer,
  ) {
    this.stateFolder = join(group.folder, "process-cpi");
  }

  static async start(options: ProcessVmsOptions = {}): Promise<ProcessVmsMesh> {
    const { agent = {}, moreCpis = [], director, sharedTablet } = options;
    const names = ["director", "standby", "https", "cpi-dispatcher"];
    const host = (name: string) => (name === "director" && sharedTablet !== undefined ? LEADER_HOST : "127.0.0.1");
    const group = await ServiceGroup.prepare({ names, hostIds: [], places: { host, launcher: () => [] } });
    const access = await agentAccess(group.folder, group.certificates);
    const nats = await group.startNats([], access.nats);
    const mesh = new ProcessVmsMesh(group, nats);
    try {
      await mesh.#start(agent, moreCpis, {
        ...access.config,
        ...(sharedTablet && { tablet: sharedTablet }),
        ...director,
        agents: { ...access.config.agents, ...director?.agents },
      });
      if (sharedTablet !== undefined) await mesh.#startStandby();
      return mesh;
    } catch (error) {
      await mesh[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #start(agent: object, moreCpis: readonly object[], director: DirectorSettings): Promise<void> {
    const { group, nats, stateFolder } = this;
    const execPath = join(group.folder, "bin", "cpi");
    installCpi(execPath);
    const properties = { state_folder: stateFolder, agent };
    const settings = { mbus: { urls: [`nats://${nats.address}`] } };
    copyFileSync(group.certificates.files("nats").caFile, this.#natsCaFile);
    const certificates = { ...director.agents.certificates, natsCaFile: this.#natsCaFile };
    const config = {
      tablet: { storage: group.dataFolder("director") },
      dispatcher: { address: group.address("cpi-dispatcher") },
      nats: { servers: [nats.address] },
      dynamicDisks: { enabled: true },
      http: {
        listen: { host: group.listen("director").host, port: group.listen("https").port },
        users: await httpUsers({ admin: ["bosh.admin"] }),
      },
      ...director,
      agents: { ...director.agents, settings, certificates },
    };
    this.#director = config;
    await group.start([
      {
        name: "cpi-dispatcher",
        service: "cpi-dispatcher",
        config: {
          registry: { address: "127.0.0.1:1" },
          cpis: [...moreCpis, { name: "process", type: "process", execPath, properties }],
          executables: { jobsFolder: group.folder, runFolder: join(group.folder, "run") },
        },
      },
      { name: "director", service: "director", config },
    ]);
  }

  async #startStandby(): Promise<void> {
    const config = { ...this.#director, http: { ...this.#director.http, listen: this.group.listen("https") } };
    await this.group.start([{ name: "standby", service: "director", config, waitFor: "listening" }]);
    // It opens its HTTPS face after the one that is asked for its health.
    const http = new HttpClient(this.group.certificates, this.group.listen("https").port, "");
    await eventually(() => http.send("GET", "/info"));
  }

  /** Has the director sign the certificates of agents by another authority, of which NATS is told first. */
  async changeAuthority(): Promise<void> {
    const { authority } = this.#director.agents.certificates as {
      readonly authority: Record<"certFile" | "keyFile", string>;
    };
    for (const file of Object.values(authority)) rmSync(file);
    const { certPem } = await openAgentAuthority(authority, { makes: true });
    appendFileSync(join(this.group.folder, "nats-ca.pem"), certPem);
    const logs = this.nats.logs.length;
    // nats-server asks anew about everybody, and somebody must answer.
    this.nats.signal("SIGHUP");
    await eventually(() => this.nats.logs.slice(logs).includes("Reloaded server configuration"));
    await this.group.process("director").kill();
    await this.group.process("director").start();
  }

  /** Has agents know NATS by one more authority. */
  async addNatsAuthority(): Promise<void> {
    appendFileSync(this.#natsCaFile, (await createAuthority({ commonName: "another", validDays: 1 })).certPem);
  }

  /** From now on certificates of agents are valid for so long. */
  async restartWithValidDays(validDays: number): Promise<void> {
    const { agents, ...others } = this.#director;
    const config = { ...others, agents: { ...agents, certificates: { ...agents.certificates, validDays } } };
    const { group } = this;
    const own = { listen: group.listen("director"), tls: group.certificates.files("director") };
    await group.process("director").restart({ ...own, ...config });
  }

  get #natsCaFile(): string {
    return join(this.group.folder, "authorities-of-nats.pem");
  }

  /** An operator's clients. */
  operator() {
    const { group } = this;
    return {
      configs: group.client(ConfigServiceDefinition, "director", LIMITS),
      deployments: group.client(DeploymentServiceDefinition, "director", LIMITS),
      disks: group.client(DynamicDiskServiceDefinition, "director", LIMITS),
      events: group.client(EventServiceDefinition, "director", LIMITS),
      lifecycle: group.client(LifecycleServiceDefinition, "director", LIMITS),
      stemcells: group.client(StemcellServiceDefinition, "director", LIMITS),
      tasks: group.client(TaskServiceDefinition, "director", LIMITS),
      vms: group.client(VmServiceDefinition, "director", LIMITS),
    };
  }

  /** Runs a command line of `diskmesh`, as an operator, in the folder of the mesh. */
  typed(...args: string[]): Promise<Ended> {
    const { caFile, certFile, keyFile } = this.group.operatorFiles;
    const environment = {
      DISKMESH_DIRECTOR: this.group.address("director"),
      DISKMESH_CA: caFile,
      DISKMESH_CERT: certFile,
      DISKMESH_KEY: keyFile,
    };
    return typeCommand(args, environment, this.group.folder);
  }

  /** Uploads what deployments need. */
  async prepare(operator: ReturnType<ProcessVmsMesh["operator"]>): Promise<void> {
    await operator.configs.updateConfig({ type: "cloud", content: CLOUD_CONFIG });
    await done(operator.stemcells.uploadStemcell(uploadOf(stemcellFile())));
  }

  /** A director's way to agents. */
  async agents(): Promise<AgentClient> {
    const tls = this.group.certificates.files("director");
    const nats = await connectNats({ servers: [this.nats.address], tls, name: "director" });
    await nats.whenConnected(AbortSignal.timeout(60_000));
    const limits = { requestTimeoutMs: 10_000, callTimeoutMs: 60_000, taskPollIntervalMs: 20 };
    const agents = new AgentClient({ nats, directorId: "the-test", ...limits });
    this.group.closeLater(nats);
    this.group.closeLater(agents);
    return agents;
  }

  vmFolder(vmCid: string): string {
    return join(this.stateFolder, "vm-folders", vmCid);
  }

  /** What the agent of a VM was asked, in order. */
  asked(vmCid: string): unknown[][] {
    const file = join(this.vmFolder(vmCid), "asked.jsonl");
    if (!existsSync(file)) return [];
    const lines = readFileSync(file, "utf8").trim().split("\n");
    return lines.map((line) => JSON.parse(line));
  }

  /** Names of the dynamic disks that a VM's programs see. */
  linksIn(vmCid: string): string[] {
    const folder = join(this.vmFolder(vmCid), "dynamic_disks");
    return existsSync(folder) ? readdirSync(folder).sort() : [];
  }

  /** Sends all processes of a VM a signal. */
  signalVm(vmCid: string, signal: "SIGSTOP" | "SIGCONT" | "SIGKILL"): void {
    const pid = pidOf(this.vmFolder(vmCid));
    if (pid === undefined) throw new Error(`vm ${vmCid} does not run`);
    process.kill(-pid, signal);
  }

  /** Ends a VM as a failing machine does: at once, and nobody is told. */
  async crashVm(vmCid: string): Promise<void> {
    this.signalVm(vmCid, "SIGKILL");
    await eventually(() => pidOf(this.vmFolder(vmCid)) === undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.group[Symbol.asyncDispose]();
    await powerOffAll(this.stateFolder);
  }
}

/** The task, which must have ended well. */
export async function done(starting: Promise<{ task?: Task | undefined }>): Promise<Task> {
  const { task } = await starting;
  if (task?.state === "TASK_STATE_DONE") return task;
  throw new Error(`${task?.description} ended as ${task?.state}: ${task?.result}`);
}

/** VMs of one group, each with a persistent disk. */
export function vmsManifest(instances: number): string {
  return `
name: vms
stemcells: [{ alias: system, os: ubuntu-noble, version: latest }]
instance_groups:
- name: vm
  instances: ${instances}
  azs: [z1]
  stemcell: system
  vm_type: small
  networks: [{ name: any }]
  persistent_disk_type: small
`;
}

export function byIndex(instances: readonly Instance[]): Instance[] {
  return [...instances].sort((a, b) => a.index - b.index);
}
