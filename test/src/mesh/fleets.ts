import type { DirectorChange } from "@diskmesh/director/testing";
import type { AgentLimits } from "@diskmesh/disk-agent/simulation";
import { type MeshPlan, metricsAt, type ProcessPlan, type ServiceName } from "./plan.js";

export interface WholeFleet {
  readonly hosts: number;
  readonly devicesPerHost: number;
  readonly deviceSizeBytes: number;
  /** Merged over the config of each service of that name; `tuning` over the director's limits in tests. */
  readonly overrides?: Partial<Record<ServiceName, object>> & { readonly director?: DirectorChange };
  /** Metrics ports by process name. */
  readonly metricsPorts?: ReadonlyMap<string, number>;
  /** Environment variables of every process. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Long timeouts, because agents and the registry answer late on a busy machine. */
const NODES = { requestTimeoutMs: 60_000, callTimeoutMs: 120_000 };

/** Returns a plan with one process of each service, and an agent for each host, all in az z1. */
export function wholeFleet(options: WholeFleet): MeshPlan {
  const { hosts, devicesPerHost, deviceSizeBytes, overrides = {}, metricsPorts, env = {} } = options;
  const usual: Partial<Record<ServiceName, object>> = {
    "disk-registry": { heartbeat: { intervalMs: 500, timeoutMs: 3_000, missedUntilSuspected: 6 } },
  };
  const planOf = (service: ServiceName, name: string = service): ProcessPlan => ({
    service,
    name,
    env,
    devices: { count: devicesPerHost, sizeBytes: deviceSizeBytes },
    config: (mesh) => ({
      ...usual[service],
      ...(service === "director" && {
        nodes: { registries: [{ address: mesh.address("disk-registry") }] },
      }),
      ...metricsAt(metricsPorts?.get(name)),
      ...overrides[service],
      ...(service === "director" && { tuning: { nodes: NODES, ...overrides.director?.tuning } }),
    }),
  });
  const hostIds = Array.from({ length: hosts }, (_, index) => `host-${index + 1}`);
  return {
    processes: [
      ...(["disk-registry", "cpi-dispatcher", "director"] as const).map((service) => planOf(service)),
      ...hostIds.map((hostId) => planOf("disk-agent", hostId)),
    ],
  };
}

export interface RegistryFleet extends Omit<MeshPlan, "processes"> {
  readonly hostIds: readonly string[];
  /** Merged over the agent's config: its devices, or the rules that find them. */
  readonly agent: (
    hostId: string,
    folder: string,
  ) => { readonly tuning?: Partial<AgentLimits>; readonly [key: string]: unknown };
  /** Merged over the registry's config. */
  readonly registry?: object;
  /** Number of registry processes, one of which leads. More than 1 needs storage that processes can share. */
  readonly registries?: number;
  /** Returns the launcher of a host's agent, which executes the agent in its own process. */
  readonly agentLauncher?: (hostId: string, folder: string) => readonly string[];
}

/** Returns a plan with only registries and agents. */
export function registryFleet(options: RegistryFleet): MeshPlan {
  const { hostIds, agent, registry, registries = 1, agentLauncher = () => [], ...plan } = options;
  const config = {
    heartbeat: { intervalMs: 500, timeoutMs: 5_000, probationMs: 500 },
    ...registry,
  };
  const waitFor = registries === 1 ? "serving" : "listening";
  return {
    deadlineMs: 5_000,
    ...plan,
    processes: [
      ...Array.from(
        { length: registries },
        (_, index): ProcessPlan => ({ service: "disk-registry", name: `disk-registry-${index + 1}`, config, waitFor }),
      ),
      ...hostIds.map(
        (name): ProcessPlan => ({
          service: "disk-agent",
          name,
          config: ({ folder }) => {
            const { tuning, ...config } = agent(name, folder);
            return { ...config, tuning: { registration: { minDelayMs: 50, maxDelayMs: 500 }, ...tuning } };
          },
          launcher: ({ folder }) => agentLauncher(name, folder),
        }),
      ),
    ],
  };
}
