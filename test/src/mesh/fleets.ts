import { type DirectorChange, httpUsers } from "@diskmesh/director/testing";
import type { AgentLimits } from "@diskmesh/disk-agent/simulation";
import { HTTPS, type MeshPlan, metricsAt, type ProcessPlan, type ServiceName } from "./plan.js";

export interface WholeFleet {
  readonly hosts: number;
  readonly devicesPerHost: number;
  readonly deviceSizeBytes: number;
  /** Merged over the config of each service of that name; `tuning` over the director's limits in tests. */
  readonly overrides?: Partial<Record<ServiceName, object>> & { readonly director?: DirectorChange };
  /** Scopes of the users of the director's HTTPS API, by name, e.g. `ADMIN`. Absent: the director has no such API. */
  readonly httpUsers?: Readonly<Record<string, readonly string[]>>;
  /** Metrics ports by process name. */
  readonly metricsPorts?: ReadonlyMap<string, number>;
  /** Environment variables of every process. */
  readonly env?: Readonly<Record<string, string>>;
}

export const ADMIN = { admin: ["bosh.admin"] };

/** Long timeouts, because agents and the registry answer late on a busy machine. */
const NODES = { requestTimeoutMs: 60_000, callTimeoutMs: 120_000 };

/** Returns a plan with one process of each service, and an agent for each host, all in az z1. */
export function wholeFleet(options: WholeFleet): MeshPlan {
  const {
    hosts,
    devicesPerHost,
    deviceSizeBytes,
    overrides = {},
    httpUsers: scopesOf,
    metricsPorts,
    env = {},
  } = options;
  let users: readonly object[] = [];
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
        ...(scopesOf && { http: { listen: mesh.listen(HTTPS), users } }),
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
    ...(scopesOf && {
      listeners: [HTTPS],
      prepare: async () => {
        users = await httpUsers(scopesOf);
        return undefined;
      },
    }),
  };
}

/** Changes of an agent's config; `tuning` of its limits in tests. */
interface AgentChange {
  readonly tuning?: Partial<AgentLimits>;
  readonly [key: string]: unknown;
}

export interface RegistryFleet extends Omit<MeshPlan, "processes"> {
  readonly hostIds: readonly string[];
  /** Device files of each agent; none by default. */
  readonly devices?: ProcessPlan["devices"];
  /** Merged over the agent's config. */
  readonly agent?: (hostId: string, folder: string) => AgentChange;
  /** Merged over the registry's config. */
  readonly registry?: object;
  /** Number of registry processes, one of which leads. More than 1 needs storage that processes can share. */
  readonly registries?: number;
  /** Returns the launcher of a host's agent, which executes the agent in its own process. */
  readonly agentLauncher?: (hostId: string, folder: string) => readonly string[];
}

/** Returns a plan with only registries and agents. */
export function registryFleet(options: RegistryFleet): MeshPlan {
  const { hostIds, devices, agent, registry, registries = 1, agentLauncher = () => [], ...plan } = options;
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
          ...(devices && { devices }),
          config: ({ folder }) => {
            const { tuning, ...config }: AgentChange = agent?.(name, folder) ?? {};
            return { ...config, tuning: { registration: { minDelayMs: 50, maxDelayMs: 500 }, ...tuning } };
          },
          launcher: ({ folder }) => agentLauncher(name, folder),
        }),
      ),
    ],
  };
}
