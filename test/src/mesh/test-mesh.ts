import {
  ConfigServiceDefinition,
  DeploymentServiceDefinition,
  DynamicDiskServiceDefinition,
  TaskServiceDefinition,
} from "@diskmesh/api/director";
import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import type { NatsServer, ServiceProcess } from "@diskmesh/testkit";
import { ServiceGroup, type ServiceName, type ServicePlan } from "./service-group.js";

export interface TestMeshOptions {
  readonly hosts: number;
  readonly devicesPerHost: number;
  readonly deviceSizeBytes: number;
  /** Laid over the config of each service of that name. */
  readonly overrides?: Partial<Record<ServiceName, object>>;
  /** Where processes tell their metrics, by name. */
  readonly metricsPorts?: ReadonlyMap<string, number>;
  /** Of every process, beside its own. */
  readonly env?: Readonly<Record<string, string>>;
}

/** A whole mesh of real processes in a temporary folder, all hosts in az z1, which tests may kill and restart. */
export class TestMesh implements AsyncDisposable {
  /** An operator's. */
  readonly clients;

  private constructor(
    readonly group: ServiceGroup,
    readonly nats: NatsServer,
  ) {
    this.clients = {
      registry: group.client(DiskRegistryServiceDefinition, "disk-registry"),
      configs: group.client(ConfigServiceDefinition, "director"),
      deployments: group.client(DeploymentServiceDefinition, "director"),
      disks: group.client(DynamicDiskServiceDefinition, "director"),
      tasks: group.client(TaskServiceDefinition, "director"),
    };
  }

  /** Starts everything and waits until all of it serves. */
  static async start(options: TestMeshOptions): Promise<TestMesh> {
    const hostIds = Array.from({ length: options.hosts }, (_, index) => `host-${index + 1}`);
    const names = ["director", "cpi-dispatcher", "disk-registry"];
    const group = await ServiceGroup.prepare({ names, hostIds });
    try {
      const mesh = new TestMesh(group, await group.startNats());
      const agents = hostIds.map((hostId) => mesh.#agent(hostId, options));
      await group.start(mesh.#services(options), agents);
      return mesh;
    } catch (error) {
      await group[Symbol.asyncDispose]();
      throw error;
    }
  }

  get hostIds(): readonly string[] {
    return this.group.hostIds;
  }

  /** The process of a service, or of the agent of a host. */
  process(name: string): ServiceProcess {
    return this.group.process(name);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.group[Symbol.asyncDispose]();
  }

  #services({ overrides, metricsPorts, env = {} }: TestMeshOptions): ServicePlan[] {
    const { group, nats } = this;
    const configs = {
      "disk-registry": {
        tablet: { storage: group.dataFolder("disk-registry") },
        heartbeat: { intervalMs: 500, timeoutMs: 3_000, missedUntilSuspected: 6 },
      },
      "cpi-dispatcher": {
        registry: { address: group.address("disk-registry") },
        executables: { jobsFolder: group.folder },
      },
      director: {
        tablet: { storage: group.dataFolder("director") },
        dispatcher: { address: group.address("cpi-dispatcher") },
        nats: { servers: [nats.address] },
        nodes: {
          registries: [{ address: group.address("disk-registry") }],
          requestTimeoutMs: 60_000,
          callTimeoutMs: 120_000,
        },
        dynamicDisks: { enabled: true },
      },
    };
    return (Object.keys(configs) as (keyof typeof configs)[]).map((service) => ({
      name: service,
      service,
      config: { ...configs[service], ...metricsAt(metricsPorts?.get(service)), ...overrides?.[service] },
      env,
    }));
  }

  #agent(hostId: string, options: TestMeshOptions): ServicePlan {
    const { group, nats } = this;
    const { devicesPerHost, deviceSizeBytes, overrides, metricsPorts, env } = options;
    const registry = group.address("disk-registry");
    const plan = group.hostAgent(hostId, { registry, devices: devicesPerHost, deviceSizeBytes, nats });
    const config = { ...plan.config, ...metricsAt(metricsPorts?.get(hostId)), ...overrides?.["disk-agent"] };
    return { ...plan, env: { ...plan.env, ...env }, config };
  }
}

/** The part of a config by which a process tells its metrics there. */
export function metricsAt(port: number | undefined): { readonly metrics?: object } {
  return port === undefined ? {} : { metrics: { listen: { port } } };
}
