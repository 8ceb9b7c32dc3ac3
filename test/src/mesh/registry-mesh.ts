import { mkdirSync, readdirSync, readlinkSync, truncateSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DiskAgentServiceService } from "@diskmesh/api/agent";
import { type Device, DiskRegistryServiceService } from "@diskmesh/api/registry";
import { type Client, createClient } from "@diskmesh/rpc";
import { freePort, ServiceProcess, type TestCertificates, temporaryFolder, testCertificates } from "@diskmesh/testkit";
import { repositoryFolder } from "../repository-folder.js";

/** On a machine that does much else. */
const START_TIMEOUT_MS = 90_000;

export interface RegistryMeshOptions {
  readonly hostIds: readonly string[];
  /** Laid over the agent's config: its devices, or the rules that find them. */
  readonly agent: (hostId: string, folder: string) => object;
  /** Laid over the registry's config. */
  readonly registry?: object;
  /** Processes of the registry, of which one leads; more than 1 needs storage that several can have. */
  readonly registries?: number;
}

/** A registry and its agents as real processes, and nothing else: what attaches and detaches devices. */
export class RegistryMesh implements AsyncDisposable {
  /** Which of them leads is for them to decide. */
  readonly registries: readonly ServiceProcess[];
  readonly agents = new Map<string, ServiceProcess>();
  readonly operator: Client<typeof DiskRegistryServiceService>;
  readonly #agentClients = new Map<string, Client<typeof DiskAgentServiceService>>();

  private constructor(
    readonly folder: string,
    options: RegistryMeshOptions,
    certificates: TestCertificates,
    addresses: ReadonlyMap<string, string>,
  ) {
    const tls = certificates.files("operator");
    const addressOf = (name: string): string => addresses.get(name) ?? "";
    const listen = (name: string) => {
      const [host, port] = addressOf(name).split(":");
      return { host, port: Number(port) };
    };
    const registryNames = registryNamesOf(options);
    const registryAddresses = registryNames.map(addressOf);
    this.registries = registryNames.map(
      (name) =>
        new ServiceProcess({
          name,
          mainFile: join(repositoryFolder, "services/disk-registry/dist/main.js"),
          folder,
          config: {
            listen: listen(name),
            tls: certificates.files("disk-registry"),
            tablet: { storage: join(folder, "registry") },
            heartbeat: { intervalMs: 500, timeoutMs: 5_000, probationMs: 500 },
            orders: { backoff: { minDelayMs: 50, maxDelayMs: 1_000 } },
            erase: { backoff: { minDelayMs: 50, maxDelayMs: 1_000 } },
            ...options.registry,
          },
          health: { address: addressOf(name), tls, serverRole: "disk-registry" },
          waitFor: registryNames.length === 1 ? "serving" : "listening",
          startTimeoutMs: START_TIMEOUT_MS,
        }),
    );
    this.operator = createClient(DiskRegistryServiceService, {
      address: registryAddresses,
      tls,
      serverRole: "disk-registry",
      defaultDeadlineMs: 5_000,
    });
    for (const hostId of options.hostIds) {
      const health = { address: addressOf(hostId), tls, serverRole: "disk-agent", serverName: hostId } as const;
      this.agents.set(
        hostId,
        new ServiceProcess({
          name: hostId,
          mainFile: join(repositoryFolder, "services/disk-agent/dist/main.js"),
          folder,
          env: { UV_THREADPOOL_SIZE: "64" },
          config: {
            hostId,
            az: "z1",
            rack: `rack-${hostId}`,
            listen: listen(hostId),
            tls: certificates.files(`disk-agent-${hostId}`),
            registry: { address: registryAddresses },
            baseFolder: join(folder, "agents", hostId),
            registration: { minDelayMs: 50, maxDelayMs: 500 },
            ...options.agent(hostId, folder),
          },
          health,
          startTimeoutMs: START_TIMEOUT_MS,
        }),
      );
      this.#agentClients.set(hostId, createClient(DiskAgentServiceService, { ...health, defaultDeadlineMs: 5_000 }));
    }
  }

  /** Starts everything and waits until all of it serves. */
  static async start(options: RegistryMeshOptions): Promise<RegistryMesh> {
    const folder = temporaryFolder();
    const certificates = await testCertificates({ hostIds: options.hostIds });
    const addresses = new Map<string, string>();
    for (const name of [...registryNamesOf(options), ...options.hostIds])
      addresses.set(name, `127.0.0.1:${await freePort()}`);
    const mesh = new RegistryMesh(folder, options, certificates, addresses);
    try {
      await Promise.all(mesh.registries.map((registry) => registry.start()));
      await Promise.all([...mesh.agents.values()].map((agent) => agent.start()));
      return mesh;
    } catch (error) {
      await mesh[Symbol.asyncDispose]();
      throw error;
    }
  }

  agent(hostId: string): ServiceProcess {
    const agent = this.agents.get(hostId);
    if (agent === undefined) throw new Error(`no agent of ${hostId}`);
    return agent;
  }

  /** An operator's client of a host's agent. */
  agentClient(hostId: string): Client<typeof DiskAgentServiceService> {
    const client = this.#agentClients.get(hostId);
    if (client === undefined) throw new Error(`no agent of ${hostId}`);
    return client;
  }

  async device(deviceId: string): Promise<Device> {
    const { device } = await this.operator.getDevice({ deviceId });
    if (device === undefined) throw new Error("the answer has no device");
    return device;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.operator.close();
    for (const client of this.#agentClients.values()) client.close();
    await Promise.all([...this.registries, ...this.agents.values()].map((process) => process.kill()));
  }
}

function registryNamesOf({ registries = 1 }: RegistryMeshOptions): string[] {
  return Array.from({ length: registries }, (_, index) =>
    index === 0 ? "disk-registry" : `disk-registry-${index + 1}`,
  );
}

/** A device file of zeros, that takes no space. */
export function makeDeviceFile(path: string, sizeBytes: number): string {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, "");
  truncateSync(path, sizeBytes);
  return path;
}

/**
 * The files that a process holds open, from its own descriptor table, each as often as it is open. One that was removed
 * ends with " (deleted)". Empty when the process is gone.
 */
export function openFiles(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  const paths: string[] = [];
  let descriptors: string[];
  try {
    descriptors = readdirSync(folder);
  } catch {
    return [];
  }
  for (const descriptor of descriptors) {
    try {
      paths.push(readlinkSync(join(folder, descriptor)));
    } catch {
      // Closed between the listing and the look.
    }
  }
  return paths;
}
