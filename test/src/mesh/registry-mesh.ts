import { DiskAgentServiceDefinition } from "@diskmesh/api/agent";
import { type Device, DiskRegistryServiceDefinition, FleetServiceDefinition } from "@diskmesh/api/registry";
import type { AgentLimits } from "@diskmesh/disk-agent/simulation";
import type { Client, TlsFiles } from "@diskmesh/rpc";
import type { ServiceProcess, TestCertificates } from "@diskmesh/testkit";
import { ServiceGroup, type ServicePlan } from "./service-group.js";

const DEADLINE_MS = 5_000;

export interface RegistryMeshOptions {
  readonly hostIds: readonly string[];
  /** Laid over the agent's config: its devices, or the rules that find them. */
  readonly agent: (
    hostId: string,
    folder: string,
  ) => { readonly tuning?: Partial<AgentLimits>; readonly [key: string]: unknown };
  readonly certificates?: TestCertificates;
  /** Laid over the registry's config. */
  readonly registry?: object;
  /** Processes of the registry, of which one leads; more than 1 needs storage that several can have. */
  readonly registries?: number;
  /** Runs the agent of a host and becomes it. */
  readonly agentLauncher?: (hostId: string, folder: string) => readonly string[];
}

/** A registry and its agents as real processes, and nothing else: what attaches and detaches devices. */
export class RegistryMesh implements AsyncDisposable {
  readonly operator: Client<typeof DiskRegistryServiceDefinition>;
  readonly fleet: Client<typeof FleetServiceDefinition>;
  readonly #agentClients: ReadonlyMap<string, Client<typeof DiskAgentServiceDefinition>>;

  private constructor(
    private readonly group: ServiceGroup,
    private readonly registryNames: readonly string[],
  ) {
    const limits = { defaultDeadlineMs: DEADLINE_MS };
    this.operator = group.client(DiskRegistryServiceDefinition, "disk-registry", { names: registryNames, ...limits });
    this.fleet = group.client(FleetServiceDefinition, "disk-registry", { names: registryNames, ...limits });
    this.#agentClients = new Map(
      group.hostIds.map((hostId) => [
        hostId,
        group.client(DiskAgentServiceDefinition, "disk-agent", { names: [hostId], ...limits }),
      ]),
    );
  }

  /** Starts everything and waits until all of it serves. */
  static async start(options: RegistryMeshOptions): Promise<RegistryMesh> {
    const { hostIds, certificates, registries = 1 } = options;
    const names = Array.from({ length: registries }, (_, index) => `disk-registry-${index + 1}`);
    const group = await ServiceGroup.prepare({ names, hostIds, ...(certificates && { certificates }) });
    const config = {
      tablet: { storage: group.dataFolder("disk-registry") },
      heartbeat: { intervalMs: 500, timeoutMs: 5_000, probationMs: 500 },
      ...options.registry,
    };
    const waitFor = registries === 1 ? "serving" : "listening";
    const registryPlan = names.map((name): ServicePlan => ({ name, service: "disk-registry", config, waitFor }));
    const registryAddresses = names.map((name) => group.address(name));
    const agentPlan = hostIds.map((name): ServicePlan => {
      const { tuning, ...agent } = options.agent(name, group.folder);
      const launcher = options.agentLauncher?.(name, group.folder) ?? [];
      const config = {
        ...group.agentConfig(name, registryAddresses),
        ...agent,
        tuning: { registration: { minDelayMs: 50, maxDelayMs: 500 }, ...tuning },
      };
      return { name, service: "disk-agent", config, launcher };
    });
    try {
      await group.start(registryPlan, agentPlan);
      return new RegistryMesh(group, names);
    } catch (error) {
      await group[Symbol.asyncDispose]();
      throw error;
    }
  }

  get folder(): string {
    return this.group.folder;
  }

  /** The TLS files of a name in the mesh's certificates. */
  files(name: string): TlsFiles {
    return this.group.certificates.files(name);
  }

  /** Where a process listens. */
  address(name: string): string {
    return this.group.address(name);
  }

  /** Which of them leads is for them to decide. */
  get registries(): readonly ServiceProcess[] {
    return this.registryNames.map((name) => this.group.process(name));
  }

  /** By host. */
  get agents(): ReadonlyMap<string, ServiceProcess> {
    return new Map(this.group.hostIds.map((hostId) => [hostId, this.group.process(hostId)]));
  }

  agent(hostId: string): ServiceProcess {
    return this.group.process(hostId);
  }

  /** An operator's client of a host's agent. */
  agentClient(hostId: string): Client<typeof DiskAgentServiceDefinition> {
    const client = this.#agentClients.get(hostId);
    if (client === undefined) throw new Error(`no agent of ${hostId}`);
    return client;
  }

  async device(deviceId: string): Promise<Device> {
    const { device } = await this.operator.getDevice({ deviceId });
    if (device === undefined) throw new Error("the answer has no device");
    return device;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.group[Symbol.asyncDispose]();
  }
}
