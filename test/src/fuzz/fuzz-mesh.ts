import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CpiServiceDefinition } from "@diskmesh/api/cpi";
import {
  ConfigServiceDefinition,
  DeploymentServiceDefinition,
  DynamicDiskServiceDefinition,
  StemcellServiceDefinition,
  TaskServiceDefinition,
} from "@diskmesh/api/director";
import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { httpUsers } from "@diskmesh/director/testing";
import { MIB_BYTES } from "@diskmesh/domain";
import { certificateFiles, createDevelopmentCertificates } from "@diskmesh/pki";
import { createClient, type TlsFiles } from "@diskmesh/rpc";
import {
  anotherCertificate,
  type NatsServer,
  type ServiceProcess,
  stemcellFile,
  tellsHeldIn,
  temporaryFolder,
} from "@diskmesh/testkit";
import { makeDeviceFile } from "../mesh/device-files.js";
import { ServiceGroup, type ServicePlan } from "../mesh/service-group.js";
import { newUaaKeys } from "./surfaces/meant-tokens.js";
import { type Caller, Targets } from "./targets.js";
import { VICTIM_AZ, VICTIM_DEVICES, VICTIM_HOST } from "./vocabulary.js";

/** The host whose disks must go on. */
export const HOST = "host-1";
/** One for each disk that stands, one that comes and goes, and some that are being erased. */
const DEVICES = 6;
const CLIENT_DEADLINE_MS = 30_000;

export const VM_REGISTRY = { user: "cpi", password: "password-of-the-vm-registry" } as const;

/** Of the director's HTTPS face, as "name:password". */
export const HTTPS_LOGIN = "admin:pw-admin";

/** What its operator wants of it, whatever is uploaded meanwhile. */
export const CLOUD_CONFIG = `
azs: [{ name: z1, cpi: fleet }, { name: z9, cpi: old }]
disk_types: [{ name: default, disk_size: 1 }]
vm_types: [{ name: small }]
networks: [{ name: private, subnets: [{ range: 127.0.9.0/24, gateway: 127.0.9.1, azs: [z9] }] }]
`;

/** Of version 1, so that the director serves the bosh-registry. Its VM has no agent. */
const OLD_CPI = `#!/bin/sh
case "$(cat)" in
  *'"method":"info"'*) echo '{"result":null,"error":{"type":"Bosh::Clouds::NotImplemented","message":"no info","ok_to_retry":false},"log":""}' ;;
  *'"method":"has_vm"'*) echo '{"result":true,"error":null,"log":""}' ;;
  *) echo '{"result":"old-1","error":null,"log":""}' ;;
esac
`;

/** Every service as a real process: a host whose disks must go on, and one that is there to be hurt. */
export class FuzzMesh implements AsyncDisposable {
  readonly hostIds = [HOST];
  readonly clients;
  readonly targets: Targets;
  /** Whose tokens the director believes. */
  readonly uaa = newUaaKeys();

  private constructor(
    readonly group: ServiceGroup,
    readonly nats: NatsServer,
    private readonly strangers: string,
    /** An operator who is nobody else: what is limited by identity must not be shared with fuzz. */
    readonly bystanderFiles: TlsFiles,
  ) {
    const limits = { defaultDeadlineMs: CLIENT_DEADLINE_MS };
    this.clients = {
      registry: group.client(DiskRegistryServiceDefinition, "disk-registry", limits),
      configs: group.client(ConfigServiceDefinition, "director", limits),
      deployments: group.client(DeploymentServiceDefinition, "director", limits),
      disks: group.client(DynamicDiskServiceDefinition, "director", limits),
      tasks: group.client(TaskServiceDefinition, "director", limits),
      stemcells: group.client(StemcellServiceDefinition, "director", limits),
    };
    const addresses = {
      director: group.address("director"),
      "cpi-dispatcher": group.address("cpi-dispatcher"),
      "disk-registry": group.address("disk-registry"),
      "disk-agent": group.address(VICTIM_HOST),
    };
    this.targets = new Targets(addresses, (caller) => this.filesOf(caller));
  }

  static async start(): Promise<FuzzMesh> {
    const names = ["director", "cpi-dispatcher", "disk-registry", "vm-registry", "https"];
    const group = await ServiceGroup.prepare({ names, hostIds: [HOST, VICTIM_HOST] });
    try {
      const strangers = temporaryFolder();
      await createDevelopmentCertificates(strangers, { hostIds: [] });
      const bystander = await anotherCertificate(group.certificates.folder, "bystander", {
        identity: { role: "operator", name: "bystander" },
        commonName: "bystander",
        usages: ["client"],
      });
      const mesh = new FuzzMesh(group, await group.startNats(), strangers, bystander);
      // So that what the processes hold can be told from what they have not cleared away yet.
      const collecting = (plan: ServicePlan): ServicePlan => ({ ...plan, env: tellsHeldIn(group.folder) });
      const users = await httpUsers({ admin: ["bosh.admin"] });
      await group.start(mesh.#services(users).map(collecting), [mesh.#agent(), mesh.#victim()].map(collecting));
      return mesh;
    } catch (error) {
      await group[Symbol.asyncDispose]();
      throw error;
    }
  }

  get processes(): ReadonlyMap<string, ServiceProcess> {
    return this.group.processes;
  }

  filesOf(caller: Caller): TlsFiles {
    if (caller === "stranger") return certificateFiles(this.strangers, "operator");
    return this.group.certificates.files(caller === "disk-agent" ? `disk-agent-${VICTIM_HOST}` : caller);
  }

  /** Where the agent of the host links the socket of a disk. */
  socketPath(diskCid: string): string {
    return join(this.group.baseFolder(HOST), "data/dynamic_disks", diskCid);
  }

  get vmRegistryPort(): number {
    return this.group.listen("vm-registry").port;
  }

  get httpsPort(): number {
    return this.group.listen("https").port;
  }

  /** A director's own client of the dispatcher. */
  dispatcherClient() {
    const client = createClient(CpiServiceDefinition, {
      address: this.group.address("cpi-dispatcher"),
      tls: this.filesOf("director"),
      serverRole: "cpi-dispatcher",
      defaultDeadlineMs: CLIENT_DEADLINE_MS,
    });
    this.group.closeLater(client);
    return client;
  }

  /** An executable file in a folder of its own below the mesh's. */
  executable(name: string, script: string): string {
    const folder = join(this.group.folder, "cpis", name);
    mkdirSync(folder, { recursive: true });
    const path = join(folder, "cpi");
    writeFileSync(path, script);
    chmodSync(path, 0o755);
    return path;
  }

  get cpiConfig(): string {
    const old = this.executable("old", OLD_CPI);
    return JSON.stringify({
      cpis: [
        { name: "fleet", type: "fleet", migrated_from: [{ name: "" }] },
        { name: "old", type: "old", exec_path: old },
      ],
    });
  }

  /** Has the director make a VM of version 1, since it serves the bosh-registry only then. Nobody waits for its agent. */
  async needVmRegistry(): Promise<void> {
    const stemcell = stemcellFile({ name: "old", version: "1", operating_system: "old", api_version: 1 });
    async function* upload() {
      yield { part: { $case: "header" as const, value: { digest: "", fix: false, wait: true } } };
      yield { part: { $case: "chunk" as const, value: stemcell } };
    }
    const { task } = await this.clients.stemcells.uploadStemcell(upload());
    if (task?.state !== "TASK_STATE_DONE") throw new Error(`the stemcell was not taken: ${task?.result}`);
    const manifest = `
name: old
stemcells: [{ alias: old, os: old, version: latest }]
instance_groups: [{ name: old, instances: 1, azs: [z9], stemcell: old, vm_type: small, networks: [{ name: private }] }]
`;
    await this.clients.deployments.deploy({ manifest });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.group[Symbol.asyncDispose]();
  }

  #services(users: readonly object[]): ServicePlan[] {
    const { group, nats } = this;
    // What clients do wrong is no line of a log that anybody reads: a million of them would only fill the disk.
    const log = { level: "error" };
    const configs = {
      "disk-registry": {
        tablet: { storage: group.dataFolder("disk-registry") },
        heartbeat: { intervalMs: 500, timeoutMs: 10_000, missedUntilSuspected: 20 },
      },
      "cpi-dispatcher": {
        registry: { address: group.address("disk-registry") },
        executables: { jobsFolder: group.folder, runFolder: join(group.folder, "run") },
      },
      director: {
        tablet: { storage: group.dataFolder("director") },
        stemcells: { folder: join(group.folder, "stemcells") },
        dispatcher: { address: group.address("cpi-dispatcher") },
        nats: { servers: [nats.address] },
        dynamicDisks: { enabled: true },
        http: {
          listen: group.listen("https"),
          users,
          tokens: { url: "https://127.0.0.1:1", keyFile: this.#uaaFile() },
        },
        boshRegistry: { listen: group.listen("vm-registry"), ...VM_REGISTRY },
      },
    };
    return (Object.keys(configs) as (keyof typeof configs)[]).map((service) => ({
      name: service,
      service,
      config: { log, ...configs[service] },
    }));
  }

  #uaaFile(): string {
    const path = join(this.group.folder, "uaa.pem");
    writeFileSync(path, this.uaa.publicPem);
    return path;
  }

  #agent(): ServicePlan {
    const registry = this.group.address("disk-registry");
    const options = { registry, devices: DEVICES, deviceSizeBytes: MIB_BYTES, nats: this.nats };
    const plan = this.group.hostAgent(HOST, options);
    return { ...plan, config: { ...plan.config, log: { level: "error" } }, waitFor: "listening" };
  }

  #victim(): ServicePlan {
    const { group, nats } = this;
    const devices = VICTIM_DEVICES.map((deviceId, index) => ({
      deviceId,
      path: makeDeviceFile(group.deviceFile(VICTIM_HOST, index), MIB_BYTES),
    }));
    const tls = this.filesOf("disk-agent");
    const own = { devices, nats: { servers: [nats.address], tls }, log: { level: "error" } };
    const config = { ...group.agentConfig(VICTIM_HOST, group.address("disk-registry"), VICTIM_AZ), ...own };
    return { name: VICTIM_HOST, service: "disk-agent", config, waitFor: "listening" };
  }
}
