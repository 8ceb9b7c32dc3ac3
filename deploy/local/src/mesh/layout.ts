import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { MIB_BYTES } from "@diskmesh/domain";
import { type CertificateFiles, certificateFiles } from "@diskmesh/pki";

/** A simulated machine: its agent process and its place in the fleet. */
export interface LocalHost {
  readonly hostId: string;
  readonly az: string;
  readonly rack: string;
}

// All hosts have the same az, because a disk stays in its az and the story moves a disk between hosts.
export const HOSTS: readonly LocalHost[] = [1, 2, 3].map((number) => ({
  hostId: `host-${number}`,
  az: "z1",
  rack: `rack-${number}`,
}));

/** The deployment of the story. */
export const DEPLOYMENT = "demo";
export const DEVICES_PER_HOST = 4;
export const DEVICE_SIZE_BYTES = 64 * MIB_BYTES;

const SERVICE_PORTS = { director: 10, "cpi-dispatcher": 20, "disk-registry": 30 } as const;
const DIRECTOR_HTTPS_PORT = 25;
const FIRST_AGENT_PORT = 40;
const FIRST_BLOCK_PORT = FIRST_AGENT_PORT + HOSTS.length;
const NATS_PORT = 50;
/** Offset of the first metrics port; each process has its own port. */
const FIRST_METRICS_PORT = 60;

/** Offset of the highest port from the base port. */
export const PORT_SPAN = FIRST_METRICS_PORT + Object.keys(SERVICE_PORTS).length + HOSTS.length - 1;

export type ServiceName = keyof typeof SERVICE_PORTS;

/** Services with a tablet. */
export const STATEFUL_SERVICES = ["disk-registry", "director"] as const satisfies readonly ServiceName[];
export type StatefulService = (typeof STATEFUL_SERVICES)[number];

/** Returns the path of a workspace's program: its bundle, where `npm start` made one. */
export function programFile(workspace: string, program: "main" | "init"): string {
  const { DISKMESH_BUNDLED } = process.env;
  const file =
    DISKMESH_BUNDLED === undefined ? `services/${workspace}/dist/${program}.js` : `bundle/${workspace}-${program}.js`;
  return fileURLToPath(new URL(`../../../../${file}`, import.meta.url));
}

/** Paths and ports of a local mesh: files below the state folder, ports from the base port on. */
export class MeshLayout {
  constructor(
    readonly stateFolder: string,
    private readonly basePort: number,
    /** Engine of the agents. */
    readonly engine = "auto",
  ) {}

  addressOf(service: ServiceName): string {
    return `127.0.0.1:${this.basePort + SERVICE_PORTS[service]}`;
  }

  agentAddress(hostId: string): string {
    return `127.0.0.1:${this.basePort + FIRST_AGENT_PORT + HOSTS.findIndex((host) => host.hostId === hostId)}`;
  }

  /** Address at which other hosts reach this host's devices. */
  blockAddress(hostId: string): string {
    return `127.0.0.1:${this.basePort + FIRST_BLOCK_PORT + HOSTS.findIndex((host) => host.hostId === hostId)}`;
  }

  /** Address that the bosh CLI connects to. */
  get directorHttpsAddress(): string {
    return `127.0.0.1:${this.basePort + DIRECTOR_HTTPS_PORT}`;
  }

  get pageAddress(): string {
    return `https://${this.directorHttpsAddress}/page`;
  }

  get natsAddress(): string {
    return `127.0.0.1:${this.basePort + NATS_PORT}`;
  }

  /** Addresses by process name. */
  get addresses(): ReadonlyMap<string, string> {
    const services = Object.keys(SERVICE_PORTS) as ServiceName[];
    return new Map([
      ["nats-server", this.natsAddress],
      ...services.map((name) => [name, this.addressOf(name)] as const),
      ...HOSTS.map(({ hostId }) => [agentName(hostId), this.agentAddress(hostId)] as const),
      ...HOSTS.map(({ hostId }) => [`devices of ${hostId}`, this.blockAddress(hostId)] as const),
    ]);
  }

  /** Metrics addresses by process name. */
  get metricsAddresses(): ReadonlyMap<string, string> {
    const processes = [...Object.keys(SERVICE_PORTS), ...HOSTS.map(({ hostId }) => agentName(hostId))];
    return new Map(processes.map((name, index) => [name, `127.0.0.1:${this.basePort + FIRST_METRICS_PORT + index}`]));
  }

  get certFolder(): string {
    return join(this.stateFolder, "certs");
  }

  /** File with the bosh CLI's password, and its hash for the director's config. */
  get boshLoginFile(): string {
    return join(this.stateFolder, "bosh-login.json");
  }

  get endpointsFile(): string {
    return join(this.stateFolder, "endpoints.json");
  }

  /** Folder with the files that nats-server's configuration includes. */
  get natsFolder(): string {
    return join(this.stateFolder, "nats");
  }

  /** File with the seed of the key with which the director signs its answers to nats-server. */
  get natsIssuerSeedFile(): string {
    return join(this.natsFolder, "issuer.seed");
  }

  /** Authority that signs the certificates of agents in VMs. */
  get agentAuthority(): { readonly certFile: string; readonly keyFile: string } {
    return { certFile: join(this.certFolder, "agents-ca.pem"), keyFile: join(this.certFolder, "agents-ca-key.pem") };
  }

  configFile(processName: string, extension = "yml"): string {
    return join(this.stateFolder, "config", `${processName}.${extension}`);
  }

  dataFolder(processName: string): string {
    return join(this.stateFolder, "data", processName);
  }

  /** Returns the `tablet` config of a service. Its state is in a folder of the tablet's name. */
  tablet(service: StatefulService): { readonly storage: string; readonly name: string } {
    return { storage: this.dataFolder(service), name: service === "director" ? "director" : "registry" };
  }

  csiSocket(processName: string): string {
    return join(this.dataFolder(processName), "csi.sock");
  }

  /** Folder in which a host's agent links the disks that are attached to its instance. */
  dynamicDisksFolder(hostId: string): string {
    return join(this.dataFolder(agentName(hostId)), "data/dynamic_disks");
  }

  logFile(processName: string): string {
    return join(this.stateFolder, "logs", `${processName}.log`);
  }

  deviceFile(hostId: string, index: number): string {
    return join(this.stateFolder, "devices", hostId, `device-${index + 1}.img`);
  }

  /** Paths of the process CPI, whose VMs are local processes: jobs folder, executable and state. */
  get processCpi(): { readonly jobsFolder: string; readonly execPath: string; readonly stateFolder: string } {
    const folder = this.dataFolder("process-cpi");
    const jobsFolder = join(folder, "jobs");
    return { jobsFolder, execPath: join(jobsFolder, "process_cpi", "bin", "cpi"), stateFolder: join(folder, "state") };
  }

  tlsFiles(certificate: string): CertificateFiles {
    return certificateFiles(this.certFolder, certificate);
  }
}

/** Returns the name of the agent's process, which is also the base name of its certificate files. */
export function agentName(hostId: string): string {
  return `disk-agent-${hostId}`;
}

export function deviceIdOf(hostId: string, index: number): string {
  return `${hostId}-device-${index + 1}`;
}
