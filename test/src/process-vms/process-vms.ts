import { appendFileSync, copyFileSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Instance, Task } from "@diskmesh/api/director";
import { type AgentAccess, agentAccess, httpUsers, type Tuning } from "@diskmesh/director/testing";
import { createAuthority } from "@diskmesh/pki";
import { installCpi, pidOf, powerOffAll } from "@diskmesh/process-cpi";
import { eventually, stemcellFile } from "@diskmesh/testkit";
import { ADMIN } from "../mesh/fleets.js";
import { HTTPS, type PlacedMesh } from "../mesh/plan.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { uploadOf } from "../mesh/upload-of.js";

const DEADLINE_MS = 240_000;

const CLOUD_CONFIG = `
azs: [{ name: z1 }]
disk_types: [{ name: small, disk_size: 1 }]
vm_types: [{ name: small }]
networks: [{ name: any, type: dynamic }]
`;

export interface ProcessVmsOptions {
  /** Properties of the CPI for its agents. */
  readonly agent?: { readonly path?: string; readonly heartbeat_interval_ms?: number };
  /** CPIs of the dispatcher that precede the process CPI; the first one is the default. */
  readonly moreCpis?: readonly object[];
  /** Merged over the director's config; `tuning` over its limits. */
  readonly director?: {
    readonly metrics?: object;
    readonly resurrection?: object;
    readonly tuning?: Tuning;
  };
  /** `tablet` config of a store that two directors can share; given, a second director stands by. */
  readonly sharedTablet?: object;
}

/** Address of the first leader's HTTPS API, if another director stands by at the same port of 127.0.0.1. */
const LEADER_HOST = "127.0.0.2";

interface DirectorSettings {
  readonly agents: { readonly certificates?: object; readonly settings?: object };
  readonly http?: object;
  readonly tuning: Tuning;
}

/** A director, and a dispatcher with the process CPI, whose VMs are agents in folders. */
export class ProcessVms implements AsyncDisposable {
  private constructor(
    readonly mesh: TestMesh,
    private readonly director: DirectorSettings,
  ) {}

  static async start(options: ProcessVmsOptions = {}): Promise<ProcessVms> {
    const { agent = {}, moreCpis = [], sharedTablet } = options;
    let director: DirectorSettings = { agents: {}, tuning: {} };
    const dispatcher = (mesh: PlacedMesh) => {
      const properties = { state_folder: stateFolderOf(mesh), agent };
      const process = { name: "process", type: "process", execPath: execPathOf(mesh), properties };
      return { cpis: [...moreCpis, process] };
    };
    const hostOf = (name: string) => (name === "director" && sharedTablet !== undefined ? LEADER_HOST : "127.0.0.1");
    const mesh = await TestMesh.start({
      processes: [
        { service: "cpi-dispatcher", config: dispatcher },
        { service: "director", config: () => director },
      ],
      listeners: ["standby", HTTPS],
      hostOf,
      tablet: sharedTablet && (() => sharedTablet),
      deadlineMs: DEADLINE_MS,
      prepare: async (prepared) => {
        installCpi(execPathOf(prepared));
        // Runs after the processes have ended.
        prepared.closeLater({ close: () => powerOffAll(stateFolderOf(prepared)) });
        const access = await agentAccess(prepared.folder, prepared.certificates);
        director = await directorOf(prepared, access, options.director);
        return access.nats;
      },
    });
    const vms = new ProcessVms(mesh, director);
    try {
      if (sharedTablet !== undefined) await vms.#startStandby();
      return vms;
    } catch (error) {
      await vms[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #startStandby(): Promise<void> {
    const { mesh } = this;
    const http = { ...this.director.http, listen: mesh.listen(HTTPS) };
    const config = { ...this.director, http };
    await mesh.add({ service: "director", name: "standby", config, waitFor: "listening" });
    // The HTTPS API starts after the gRPC API, whose health was checked.
    await eventually(() => mesh.http().send("GET", "/info"));
  }

  /** Makes agents trust one more authority for NATS. */
  async addNatsAuthority(): Promise<void> {
    appendFileSync(natsCaFileOf(this.mesh), (await createAuthority({ commonName: "another", validDays: 1 })).certPem);
  }

  /** Restarts the director so that new certificates of agents are valid for this long. */
  async restartWithValidDays(validDays: number): Promise<void> {
    const { agents, ...others } = this.director;
    const config = { ...others, agents: { ...agents, certificates: { ...agents.certificates, validDays } } };
    const plan = { service: "director", config } as const;
    await this.mesh.process("director").restart(this.mesh.configOf(plan));
  }

  /** Uploads the configs and the stemcell that deployments need. */
  async prepare(): Promise<void> {
    const operator = this.mesh.clients;
    await operator.configs.updateConfig({ type: "cloud", content: CLOUD_CONFIG });
    await done(operator.stemcells.uploadStemcell(uploadOf(stemcellFile())));
  }

  vmFolder(vmCid: string): string {
    return join(stateFolderOf(this.mesh), "vm-folders", vmCid);
  }

  /** Returns the calls that a VM's agent received, in order. */
  asked(vmCid: string): unknown[][] {
    const file = join(this.vmFolder(vmCid), "asked.jsonl");
    if (!existsSync(file)) return [];
    const lines = readFileSync(file, "utf8").trim().split("\n");
    return lines.map((line) => JSON.parse(line));
  }

  /** Returns the names of the dynamic disks that a VM's programs see. */
  linksIn(vmCid: string): string[] {
    const folder = join(this.vmFolder(vmCid), "dynamic_disks");
    return existsSync(folder) ? readdirSync(folder).sort() : [];
  }

  /** Sends a signal to all processes of a VM. */
  signalVm(vmCid: string, signal: "SIGSTOP" | "SIGCONT" | "SIGKILL"): void {
    const pid = pidOf(this.vmFolder(vmCid));
    if (pid === undefined) throw new Error(`vm ${vmCid} does not run`);
    process.kill(-pid, signal);
  }

  /** Kills a VM, as a failing machine does. */
  async crashVm(vmCid: string): Promise<void> {
    this.signalVm(vmCid, "SIGKILL");
    await eventually(() => pidOf(this.vmFolder(vmCid)) === undefined);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.mesh[Symbol.asyncDispose]();
  }
}

const stateFolderOf = ({ folder }: PlacedMesh) => join(folder, "process-cpi");
const execPathOf = ({ folder }: PlacedMesh) => join(folder, "bin", "cpi");
const natsCaFileOf = ({ folder }: PlacedMesh) => join(folder, "authorities-of-nats.pem");

async function directorOf(
  mesh: PlacedMesh,
  access: AgentAccess,
  director: ProcessVmsOptions["director"] = {},
): Promise<DirectorSettings> {
  const { agents } = access.config;
  copyFileSync(mesh.certificates.files("nats").caFile, natsCaFileOf(mesh));
  return {
    http: {
      listen: { host: mesh.listen("director").host, port: mesh.listen(HTTPS).port },
      users: await httpUsers(ADMIN),
    },
    ...access.config,
    ...director,
    tuning: { ...director.tuning, agents: { ...access.tuning.agents, ...director.tuning?.agents } },
    agents: {
      ...agents,
      settings: { mbus: { urls: [`nats://${mesh.address("nats")}`] } },
      certificates: { ...agents.certificates, natsCaFile: natsCaFileOf(mesh) },
    },
  };
}

/** Returns the task; throws unless it succeeded. */
export async function done(starting: Promise<{ task?: Task | undefined }>): Promise<Task> {
  const { task } = await starting;
  if (task?.state === "TASK_STATE_DONE") return task;
  throw new Error(`${task?.description} ended as ${task?.state}: ${task?.result}`);
}

/** Returns a manifest with VMs of one group, each with a persistent disk. */
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
