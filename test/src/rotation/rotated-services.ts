import { join } from "node:path";
import { type AgentAccess, agentAccess } from "@diskmesh/director/testing";
import { MIB_BYTES } from "@diskmesh/domain";
import { installCpi, powerOffAll } from "@diskmesh/process-cpi";
import type { NatsServer } from "@diskmesh/testkit";
import { ServiceGroup, type ServiceName, type ServicePlan } from "../mesh/service-group.js";
import type { ReplacedFiles } from "./replaced-files.js";

export const ROTATED_HOSTS = ["h1", "h2"] as const;
/** How often agents tell the director that they are there. */
export const BEAT_INTERVAL_MS = 1_000;
const DEVICES_PER_HOST = 2;
/** Long enough for a machine that has no time: what fails does not fail for that. */
const PATIENT_MS = 60_000;

/** A service of each kind and two agents, on one NATS server that asks the director whom to let in. */
export interface RotatedServices {
  readonly group: ServiceGroup;
  readonly nats: NatsServer;
  /** How NATS and the director agree on whom to let in. */
  readonly access: AgentAccess;
  /** Where the CPI has its VMs. */
  readonly vmsFolder: string;
}

/** Starts all of them and waits until they serve. */
export async function startRotatedServices(certificates: ReplacedFiles): Promise<RotatedServices> {
  const names = ["director", "cpi-dispatcher", "disk-registry"];
  const group = await ServiceGroup.prepare({ names, hostIds: ROTATED_HOSTS, certificates });
  try {
    const access = await agentAccess(group.folder, group.certificates);
    const nats = await group.startNats([], access.nats);
    const services = { group, nats, access, vmsFolder: join(group.folder, "vms") };
    group.closeLater({ close: () => powerOffAll(services.vmsFolder) });
    const plans = [registryOf(group), dispatcherOf(services), directorOf(services, certificates)];
    await group.start(
      plans,
      ROTATED_HOSTS.map((hostId) => agentOf(services, hostId, certificates)),
    );
    return services;
  } catch (error) {
    await group[Symbol.asyncDispose]();
    throw error;
  }
}

function registryOf(group: ServiceGroup): ServicePlan {
  return planOf("disk-registry", {
    tablet: { storage: group.dataFolder("disk-registry") },
    heartbeat: { intervalMs: 500, timeoutMs: PATIENT_MS, probationMs: 500 },
  });
}

function dispatcherOf({ group, vmsFolder }: RotatedServices): ServicePlan {
  const execPath = join(group.folder, "bin", "cpi");
  installCpi(execPath);
  const properties = { state_folder: vmsFolder, agent: { heartbeat_interval_ms: BEAT_INTERVAL_MS } };
  return planOf("cpi-dispatcher", {
    registry: { address: group.address("disk-registry") },
    cpis: [
      { name: "fleet", type: "fleet" },
      { name: "process", type: "process", execPath, properties },
    ],
    executables: { jobsFolder: group.folder, runFolder: join(group.folder, "run") },
  });
}

function directorOf({ group, nats, access }: RotatedServices, certificates: ReplacedFiles): ServicePlan {
  return planOf("director", {
    tablet: { storage: group.dataFolder("director") },
    dispatcher: { address: group.address("cpi-dispatcher") },
    nats: { servers: [nats.address], tls: certificates.mbusFiles("director") },
    nodes: { registries: [{ address: group.address("disk-registry") }] },
    dynamicDisks: { enabled: true },
    agents: {
      // An agent that takes other settings restarts rather than answers: half of this is waited for it.
      requestTimeoutMs: 10_000,
      settings: { mbus: { urls: [`nats://${nats.address}`] } },
      natsIssuerSeedFile: access.config.agents.natsIssuerSeedFile,
      certificates: {
        authority: access.config.agents.certificates.authority,
        // After a third of it they get another one: as often as all others.
        validDays: 3 * certificates.validDays,
        checkIntervalMs: 1_000,
      },
    },
  });
}

function agentOf({ group, nats }: RotatedServices, hostId: string, certificates: ReplacedFiles): ServicePlan {
  const registry = group.address("disk-registry");
  const plan = group.hostAgent(hostId, { registry, devices: DEVICES_PER_HOST, deviceSizeBytes: MIB_BYTES, nats });
  const tls = certificates.mbusFiles(`disk-agent-${hostId}`);
  const config = {
    ...plan.config,
    nats: { servers: [nats.address], tls },
    remoteIoTimeoutMs: 2 * PATIENT_MS,
    tuning: { mbusHeartbeatIntervalMs: BEAT_INTERVAL_MS, heartbeatTimeoutMs: PATIENT_MS },
  };
  return { ...plan, config };
}

function planOf(service: ServiceName, config: object): ServicePlan {
  return { name: service, service, config };
}
