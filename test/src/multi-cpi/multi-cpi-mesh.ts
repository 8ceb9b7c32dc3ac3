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
import { identityUri, MIB_BYTES } from "@diskmesh/domain";
import { AgentClient, connectNats } from "@diskmesh/mbus";
import type { NatsServer, ServiceProcess } from "@diskmesh/testkit";
import { ServiceGroup, type ServicePlan } from "../mesh/service-group.js";
import { ReferenceCpi } from "../reference-cpi/install.js";
import { type CpiConfigInput, mbusOf } from "./configs.js";
import { processesOf } from "./processes.js";

export const CELLS = { "cell-1": "z4", "cell-2": "z5" } as const;
export type CellName = keyof typeof CELLS;

const CELL_NAMES = Object.keys(CELLS) as CellName[];
const HOSTS_PER_CELL = ["a", "b"];
const DEVICES_PER_HOST = 2;

/** Every host, and its cell. */
export const HOSTS: ReadonlyMap<string, CellName> = new Map(
  CELL_NAMES.flatMap((cell) => HOSTS_PER_CELL.map((host): [string, CellName] => [`${cell}-${host}`, cell])),
);

/** The certificate of all agents in VMs: the director makes their ids only when it makes the VMs. */
const VM_AGENTS = "vm-agents";

/** A CPI may take its time. */
const CLIENT_LIMITS = { defaultDeadlineMs: 240_000 };

/** One director and one dispatcher with three CPI executables and two cells, all of them real processes. */
export class MultiCpiMesh implements AsyncDisposable {
  readonly installed: readonly [ReferenceCpi, ReferenceCpi, ReferenceCpi];

  private constructor(
    private readonly group: ServiceGroup,
    readonly nats: NatsServer,
  ) {
    const install = (name: string) => new ReferenceCpi(join(group.folder, "cpis", name));
    this.installed = [install("first"), install("second"), install("third")];
  }

  /** Starts everything and waits until all of it serves. */
  static async start(): Promise<MultiCpiMesh> {
    const names = ["director", "cpi-dispatcher", "vm-registry", ...CELL_NAMES];
    const group = await ServiceGroup.prepare({ names, hostIds: [...HOSTS.keys()], moreAgents: [VM_AGENTS] });
    try {
      const user = identityUri({ role: "disk-agent", name: VM_AGENTS });
      const inVms = { user, publish: ["hm.agent.*.*", "director.>"], subscribe: ["agent.*"] };
      const mesh = new MultiCpiMesh(group, await group.startNats([inVms]));
      await group.start(mesh.#services(), mesh.#agents());
      return mesh;
    } catch (error) {
      await group[Symbol.asyncDispose]();
      throw error;
    }
  }

  get folder(): string {
    return this.group.folder;
  }

  get processes(): ReadonlyMap<string, ServiceProcess> {
    return this.group.processes;
  }

  process(name: string): ServiceProcess {
    return this.group.process(name);
  }

  /** What only the director and the first CPI know. */
  get vmRegistry(): CpiConfigInput["vmRegistry"] {
    return {
      endpoint: `http://${this.group.address("vm-registry")}`,
      user: "cpi",
      password: "password-of-the-vm-registry",
    };
  }

  get cpiConfigInput(): Omit<CpiConfigInput, "nameInZ2"> {
    return {
      installed: this.installed,
      cells: [this.group.address("cell-1"), this.group.address("cell-2")],
      vmRegistry: this.vmRegistry,
      mbus: this.#mbus,
    };
  }

  /** Where the agent of a host links its dynamic disks. */
  dynamicDisk(hostId: string, diskCid: string): string {
    return join(this.group.baseFolder(hostId), "data/dynamic_disks", diskCid);
  }

  /** An operator's clients. */
  operator() {
    const { group } = this;
    const cell = (name: CellName) =>
      group.client(DiskRegistryServiceDefinition, "disk-registry", { names: [name], ...CLIENT_LIMITS });
    return {
      configs: group.client(ConfigServiceDefinition, "director", CLIENT_LIMITS),
      deployments: group.client(DeploymentServiceDefinition, "director", CLIENT_LIMITS),
      disks: group.client(DynamicDiskServiceDefinition, "director", CLIENT_LIMITS),
      stemcells: group.client(StemcellServiceDefinition, "director", CLIENT_LIMITS),
      tasks: group.client(TaskServiceDefinition, "director", CLIENT_LIMITS),
      cpis: group.client(CpiServiceDefinition, "cpi-dispatcher", CLIENT_LIMITS),
      "cell-1": cell("cell-1"),
      "cell-2": cell("cell-2"),
    };
  }

  /** A director's way to agents, in VMs and on hosts. */
  async agents(): Promise<AgentClient> {
    const tls = this.group.certificates.files("director");
    const nats = await connectNats({ servers: [this.nats.address], tls, name: "director" });
    await nats.whenConnected(AbortSignal.timeout(30_000));
    const limits = { requestTimeoutMs: 5_000, callTimeoutMs: 30_000, taskPollIntervalMs: 20 };
    const agents = new AgentClient({ nats, directorId: "the-test", ...limits });
    this.group.closeLater(nats);
    this.group.closeLater(agents);
    return agents;
  }

  /** Ends all, and what is left of VMs. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const cpi of this.installed) await cpi.stopVms();
    await this.group[Symbol.asyncDispose]();
    for (const { pid } of processesOf(this.folder)) process.kill(pid, "SIGKILL");
  }

  #services(): ServicePlan[] {
    const { group } = this;
    const cells = CELL_NAMES.map((name): ServicePlan => {
      const heartbeat = { intervalMs: 500, timeoutMs: 30_000, probationMs: 0 };
      return {
        name,
        service: "disk-registry",
        config: { tablet: { storage: group.dataFolder(name), name }, heartbeat },
      };
    });
    const { user, password } = this.vmRegistry;
    const director = {
      tablet: { storage: group.dataFolder("director") },
      dispatcher: { address: group.address("cpi-dispatcher") },
      nats: { servers: [this.nats.address] },
      // Few, so that a CPI that hangs soon has them all.
      dynamicDisks: { enabled: true },
      queues: { dynamicDisks: { workers: 2 } },
      // Long enough for a connection to come back, and no longer: what is broken in a test is broken for good.
      cpi: { retryTimeoutMs: 8_000 },
      agents: { settings: { mbus: this.#mbus } },
      boshRegistry: { listen: group.listen("vm-registry"), user, password },
    };
    const dispatcher = {
      registry: { address: group.address("cell-1") },
      executables: { jobsFolder: this.folder, runFolder: join(this.folder, "run") },
    };
    return [
      ...cells,
      { name: "cpi-dispatcher", service: "cpi-dispatcher", config: dispatcher },
      { name: "director", service: "director", config: director },
    ];
  }

  #agents(): ServicePlan[] {
    return [...HOSTS].map(([hostId, cell]) =>
      this.group.hostAgent(hostId, {
        az: CELLS[cell],
        registry: this.group.address(cell),
        devices: DEVICES_PER_HOST,
        deviceSizeBytes: MIB_BYTES,
        nats: this.nats,
      }),
    );
  }

  get #mbus(): object {
    return mbusOf(this.nats.address, this.group.certificates.files(`disk-agent-${VM_AGENTS}`));
  }
}
