import { join } from "node:path";
import {
  ConfigServiceDefinition,
  DeploymentServiceDefinition,
  DynamicDiskServiceDefinition,
  TaskServiceDefinition,
} from "@diskmesh/api/director";
import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { MIB_BYTES } from "@diskmesh/domain";
import type { NatsServer } from "@diskmesh/testkit";
import type { Store } from "../kill-test/stores.js";
import { programOf, ServiceGroup, type ServiceName, type ServicePlan } from "../mesh/service-group.js";

const HOSTS = ["h1", "h2", "h3"] as const;
const DEVICES_PER_HOST = 3;
/** Long beside a start, so that a host whose agent is replaced is not taken for lost. */
const SILENCE_MS = 60_000;
const LAST_LINES = 4;

/** Two of each service, and three agents: what a fleet has that is upgraded without a pause. */
const SERVICES: Readonly<Record<Exclude<ServiceName, "disk-agent">, readonly string[]>> = {
  "disk-registry": ["disk-registry-1", "disk-registry-2"],
  "cpi-dispatcher": ["cpi-dispatcher-1", "cpi-dispatcher-2"],
  director: ["director-1", "director-2"],
};

/** By version: where its programs are. */
export interface Versions {
  readonly last: (service: ServiceName) => string;
  readonly present: (service: ServiceName) => string;
}

export function versionsIn(lastReleaseFolder: string): Versions {
  return {
    last: (service) => join(lastReleaseFolder, "services", service, "bundle/main.js"),
    present: programOf,
  };
}

/** A mesh of which every process can be of one version or the other. */
export class VersionsMesh implements AsyncDisposable {
  readonly clients;
  /** In the order in which they are upgraded: each after those that it calls. */
  readonly processes: readonly { readonly name: string; readonly service: ServiceName }[];

  private constructor(
    readonly group: ServiceGroup,
    private readonly versions: Versions,
  ) {
    const of = (service: keyof typeof SERVICES) => ({ names: SERVICES[service], defaultDeadlineMs: 60_000 });
    this.clients = {
      registry: group.client(DiskRegistryServiceDefinition, "disk-registry", of("disk-registry")),
      configs: group.client(ConfigServiceDefinition, "director", of("director")),
      deployments: group.client(DeploymentServiceDefinition, "director", of("director")),
      disks: group.client(DynamicDiskServiceDefinition, "director", of("director")),
      tasks: group.client(TaskServiceDefinition, "director", of("director")),
    };
    const services = Object.entries(SERVICES) as [ServiceName, readonly string[]][];
    this.processes = [...services, ["disk-agent", HOSTS] as const].flatMap(([service, names]) =>
      names.map((name) => ({ name, service })),
    );
  }

  /** Starts all of it, each process of the last release. */
  static async start(store: Store, versions: Versions): Promise<VersionsMesh> {
    const group = await ServiceGroup.prepare({ names: Object.values(SERVICES).flat(), hostIds: HOSTS });
    try {
      const mesh = new VersionsMesh(group, versions);
      const nats = await group.startNats();
      await group.start(...mesh.#plans(store, nats));
      return mesh;
    } catch (error) {
      await group[Symbol.asyncDispose]();
      throw error;
    }
  }

  get hostIds(): readonly string[] {
    return HOSTS;
  }

  /** Stops a process as its supervisor would, and starts it as the other version. */
  async replace(name: string, service: ServiceName, version: keyof Versions): Promise<void> {
    const process = this.group.process(name);
    const { code, signal } = await process.stop();
    if (code !== 0) throw new Error(`${name} ended with ${signal ?? code} when it was told to stop`);
    process.mainFile = this.versions[version](service);
    await process.start();
    // An agent also until it is registered: only then is what it serves complete.
    if (service === "disk-agent" || service === "cpi-dispatcher") await process.waitFor("serving");
  }

  /** What each process said last, for a failure. */
  lastLines(): string {
    const lines = (name: string) => this.group.process(name).logs.trimEnd().split("\n").slice(-LAST_LINES).join("\n");
    return this.processes.map(({ name }) => `${name}:\n${lines(name)}`).join("\n");
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.group[Symbol.asyncDispose]();
  }

  #plans(store: Store, nats: NatsServer): ServicePlan[][] {
    const { group } = this;
    const addresses = (service: keyof typeof SERVICES) => SERVICES[service].map((name) => group.address(name));
    const registry = { address: addresses("disk-registry") };
    // The last release has another key for the lease.
    const tablet = (service: string) => ({ ...store.tablet?.(service), leaseTimeMs: undefined });
    const configs = {
      "disk-registry": {
        tablet: tablet("disk-registry"),
        heartbeat: { intervalMs: 500, timeoutMs: SILENCE_MS, missedUntilSuspected: 60 },
      },
      "cpi-dispatcher": { registry },
      director: {
        tablet: tablet("director"),
        dispatcher: { address: addresses("cpi-dispatcher") },
        nats: { servers: [nats.address] },
        dynamicDisks: { enabled: true },
        cpi: { retryTimeoutMs: 120_000 },
      },
    };
    const services = (Object.keys(SERVICES) as (keyof typeof SERVICES)[]).map((service) =>
      // Which of them leads nobody knows.
      SERVICES[service].map((name) => this.#plan({ name, service, config: configs[service], waitFor: "listening" })),
    );
    const of = { devices: DEVICES_PER_HOST, deviceSizeBytes: MIB_BYTES, nats };
    const agents = HOSTS.map((name) =>
      this.#plan({ ...group.hostAgent(name, { registry: registry.address, ...of }), waitFor: "listening" }),
    );
    return [...services, agents];
  }

  #plan(plan: ServicePlan): ServicePlan {
    return { ...plan, mainFile: this.versions.last(plan.service) };
  }
}
