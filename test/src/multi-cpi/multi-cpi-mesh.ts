import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { CpiServiceService } from "@diskmesh/api/cpi";
import {
  ConfigServiceService,
  DeploymentServiceService,
  DynamicDiskServiceService,
  StemcellServiceService,
  TaskServiceService,
} from "@diskmesh/api/director";
import { DiskRegistryServiceService } from "@diskmesh/api/registry";
import { identityUri, MIB_BYTES, parseHostId, type Role } from "@diskmesh/domain";
import { AgentClient, connectNats, mbusPermissions, type NatsConnection } from "@diskmesh/mbus";
import { type Client, createClient, type ServiceDefinition } from "@diskmesh/rpc";
import {
  freePort,
  type NatsServer,
  type NatsUser,
  ServiceProcess,
  startNats,
  type TestCertificates,
  temporaryFolder,
  testCertificates,
} from "@diskmesh/testkit";
import { makeDeviceFile } from "../mesh/registry-mesh.js";
import { ReferenceCpi } from "../reference-cpi/install.js";
import { repositoryFolder } from "../repository-folder.js";
import { type CpiConfigInput, mbusOf } from "./configs.js";
import { processesOf } from "./processes.js";

export const CELLS = { "cell-1": "z4", "cell-2": "z5" } as const;
export type CellName = keyof typeof CELLS;

const HOSTS_PER_CELL = ["a", "b"];
const DEVICES_PER_HOST = 2;

/** The certificate of all agents in VMs: the director makes their ids only when it makes the VMs. */
const VM_AGENTS = "vm-agents";

type Plan = readonly { readonly name: string; readonly service: Role; readonly config: object }[];

/** One director and one dispatcher with three CPI executables and two cells, all of them real processes. */
export class MultiCpiMesh implements AsyncDisposable {
  readonly processes = new Map<string, ServiceProcess>();
  readonly installed: readonly [ReferenceCpi, ReferenceCpi, ReferenceCpi];
  readonly #addresses = new Map<string, string>();
  readonly #open: { close(): void | Promise<void> }[] = [];

  private constructor(
    readonly folder: string,
    readonly certificates: TestCertificates,
    readonly nats: NatsServer,
  ) {
    const install = (name: string) => new ReferenceCpi(join(folder, "cpis", name));
    this.installed = [install("first"), install("second"), install("third")];
  }

  /** Starts everything and waits until all of it serves. */
  static async start(): Promise<MultiCpiMesh> {
    const folder = temporaryFolder();
    const certificates = await testCertificates({ hostIds: [...ALL_HOSTS.keys(), VM_AGENTS] });
    const nats = await startNats({ folder, certs: certificates, users: natsUsers() });
    const mesh = new MultiCpiMesh(folder, certificates, nats);
    try {
      for (const name of ["director", "cpi-dispatcher", "vm-registry", ...Object.keys(CELLS), ...ALL_HOSTS.keys()])
        mesh.#addresses.set(name, `127.0.0.1:${await freePort()}`);
      for (const plan of [mesh.#services(), mesh.#agents()]) {
        for (const { name, service, config } of plan) mesh.processes.set(name, mesh.#process(name, service, config));
        await Promise.all(plan.map(({ name }) => mesh.process(name).start()));
      }
      return mesh;
    } catch (error) {
      await mesh[Symbol.asyncDispose]();
      throw error;
    }
  }

  process(name: string): ServiceProcess {
    const process = this.processes.get(name);
    if (process === undefined) throw new Error(`no process ${name}`);
    return process;
  }

  /** What only the director and the first CPI know. */
  get vmRegistry(): CpiConfigInput["vmRegistry"] {
    return {
      endpoint: `http://${this.#address("vm-registry")}`,
      user: "cpi",
      password: "canary-of-the-vm-registry",
    };
  }

  get cpiConfigInput(): Omit<CpiConfigInput, "canary" | "nameInZ2"> {
    return {
      installed: this.installed,
      cells: [this.#address("cell-1"), this.#address("cell-2")],
      vmRegistry: this.vmRegistry,
      mbus: this.#mbus,
    };
  }

  /** Where the agent of a host links its dynamic disks. */
  dynamicDisk(hostId: string, diskCid: string): string {
    return join(this.folder, "agents", hostId, "data/dynamic_disks", diskCid);
  }

  /** An operator's clients. */
  operator() {
    return {
      configs: this.#client(ConfigServiceService, "director", "director"),
      deployments: this.#client(DeploymentServiceService, "director", "director"),
      disks: this.#client(DynamicDiskServiceService, "director", "director"),
      stemcells: this.#client(StemcellServiceService, "director", "director"),
      tasks: this.#client(TaskServiceService, "director", "director"),
      cpis: this.#client(CpiServiceService, "cpi-dispatcher", "cpi-dispatcher"),
      "cell-1": this.#client(DiskRegistryServiceService, "cell-1", "disk-registry"),
      "cell-2": this.#client(DiskRegistryServiceService, "cell-2", "disk-registry"),
    };
  }

  /** A director's way to agents, in VMs and on hosts. */
  async agents(): Promise<AgentClient> {
    const tls = this.certificates.files("director");
    const nats: NatsConnection = await connectNats({ servers: [this.nats.address], tls, name: "director" });
    await nats.whenConnected(AbortSignal.timeout(30_000));
    const limits = { requestTimeoutMs: 5_000, callTimeoutMs: 30_000, taskPollIntervalMs: 20 };
    const agents = new AgentClient({ nats, directorId: "the-test", ...limits });
    this.#open.push(agents, nats);
    return agents;
  }

  /** Ends all, and what is left of VMs. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const one of this.#open) await one.close();
    for (const cpi of this.installed) cpi.stopVms();
    await Promise.all([...this.processes.values()].map((process) => process.kill()));
    await this.nats.kill();
    for (const { pid } of processesOf(this.folder)) process.kill(pid, "SIGKILL");
  }

  #services(): Plan {
    const cells = Object.keys(CELLS).map((name) => ({
      name,
      service: "disk-registry" as const,
      config: {
        tablet: { storage: join(this.folder, "data", name), name },
        heartbeat: { intervalMs: 500, timeoutMs: 30_000, probationMs: 0 },
      },
    }));
    const [host, port] = this.#address("vm-registry").split(":");
    const { user, password } = this.vmRegistry;
    const director = {
      tablet: { storage: join(this.folder, "data", "director") },
      dispatcher: { address: this.#address("cpi-dispatcher") },
      nats: { servers: [this.nats.address] },
      // Few, so that a CPI that hangs soon has them all.
      dynamicDisks: { enabled: true, workers: 2 },
      // Long enough for a connection to come back, and no longer: what is broken in a test is broken for good.
      cpi: { retryMs: 8_000 },
      agents: { settings: { mbus: this.#mbus } },
      registry: { listen: { host, port: Number(port) }, user, password },
    };
    const dispatcher = {
      registry: { address: this.#address("cell-1") },
      executables: { runFolder: join(this.folder, "run") },
    };
    return [
      ...cells,
      { name: "cpi-dispatcher", service: "cpi-dispatcher", config: dispatcher },
      { name: "director", service: "director", config: director },
    ];
  }

  #agents(): Plan {
    return [...ALL_HOSTS].map(([hostId, cell]) => ({
      name: hostId,
      service: "disk-agent",
      config: {
        hostId,
        az: CELLS[cell],
        rack: `rack-${hostId}`,
        registry: { address: this.#address(cell) },
        baseFolder: join(this.folder, "agents", hostId),
        registration: { minDelayMs: 50, maxDelayMs: 500 },
        devices: Array.from({ length: DEVICES_PER_HOST }, (_, index) => ({
          deviceId: `${hostId}-${index + 1}`,
          path: makeDeviceFile(join(this.folder, "devices", hostId, `${index + 1}.img`), MIB_BYTES),
        })),
        nats: { servers: [this.nats.address], tls: this.certificates.files(`disk-agent-${hostId}`) },
      },
    }));
  }

  #process(name: string, service: Role, config: object): ServiceProcess {
    const address = this.#address(name);
    const [host, port] = address.split(":");
    const isAgent = service === "disk-agent";
    mkdirSync(join(this.folder, "data"), { recursive: true });
    return new ServiceProcess({
      name,
      mainFile: join(repositoryFolder, "services", service, "dist/main.js"),
      folder: this.folder,
      config: {
        listen: { host, port: Number(port) },
        tls: this.certificates.files(isAgent ? `disk-agent-${name}` : service),
        ...config,
      },
      health: {
        address,
        tls: this.certificates.files("operator"),
        serverRole: service,
        ...(isAgent ? { serverName: name } : {}),
      },
      // All start at once, and the machine may have other things to do.
      startTimeoutMs: 120_000,
    });
  }

  get #mbus(): object {
    return mbusOf(this.nats.address, this.certificates.files(`disk-agent-${VM_AGENTS}`));
  }

  #client<Definition extends ServiceDefinition>(
    definition: Definition,
    name: string,
    serverRole: Role,
  ): Client<Definition> {
    const tls = this.certificates.files("operator");
    const options = { address: this.#address(name), tls, serverRole, defaultDeadlineMs: 240_000 };
    const client = createClient(definition, options);
    this.#open.push(client);
    return client;
  }

  #address(name: string): string {
    const address = this.#addresses.get(name);
    if (address === undefined) throw new Error(`no address of ${name}`);
    return address;
  }
}

const ALL_HOSTS: ReadonlyMap<string, CellName> = new Map(
  (Object.keys(CELLS) as CellName[]).flatMap((cell) =>
    HOSTS_PER_CELL.map((host): [string, CellName] => [`${cell}-${host}`, cell]),
  ),
);

export const HOSTS = ALL_HOSTS;

function natsUsers(): NatsUser[] {
  const identities = [
    { role: "director", name: "" } as const,
    ...[...ALL_HOSTS.keys()].map((hostId) => ({ role: "disk-agent", name: parseHostId(hostId) }) as const),
  ];
  const inVms = identityUri({ role: "disk-agent", name: VM_AGENTS });
  return [
    ...identities.map((identity) => ({ user: identityUri(identity), ...mbusPermissions(identity) })),
    { user: inVms, publish: ["hm.agent.*.*", "director.>"], subscribe: ["agent.*"] },
  ];
}
