import { join } from "node:path";
import { type AgentAccess, agentAccess } from "@diskmesh/director/testing";
import { MIB_BYTES } from "@diskmesh/domain";
import { installCpi, powerOffAll } from "@diskmesh/process-cpi";
import type { PlacedMesh, ProcessPlan } from "../mesh/plan.js";
import { TestMesh } from "../mesh/test-mesh.js";
import type { ReplacedFiles } from "./replaced-files.js";

export const ROTATED_HOSTS = ["h1", "h2"] as const;
/** Interval of agents' heartbeats to the director, in ms. */
export const BEAT_INTERVAL_MS = 1_000;
const DEVICES_PER_HOST = 2;
/** Timeout in ms, long enough for a busy machine. */
const PATIENT_MS = 60_000;
const DEADLINE_MS = 120_000;

/** One process of each service, two agents, and a NATS server that asks the director which agents to admit. */
export interface RotatedServices {
  readonly mesh: TestMesh;
  /** Keys and settings with which NATS asks the director about agents. */
  readonly access: AgentAccess;
}

/** Starts all processes, and waits until they serve. */
export async function startRotatedServices(certificates: ReplacedFiles): Promise<RotatedServices> {
  let access: AgentAccess | undefined;
  const mesh = await TestMesh.start({
    processes: [
      REGISTRY,
      { service: "cpi-dispatcher", config: dispatcherOf },
      { service: "director", config: (prepared) => directorOf(prepared, access as AgentAccess, certificates) },
      ...ROTATED_HOSTS.map((hostId) => agentOf(hostId, certificates)),
    ],
    certificates,
    deadlineMs: DEADLINE_MS,
    prepare: async (prepared) => {
      installCpi(execPathOf(prepared));
      prepared.closeLater({ close: () => powerOffAll(vmsFolderOf(prepared)) });
      access = await agentAccess(prepared.folder, certificates);
      return access.nats;
    },
  });
  return { mesh, access: access as AgentAccess };
}

/** Returns the folder of the CPI's VMs. */
const vmsFolderOf = ({ folder }: PlacedMesh) => join(folder, "vms");
const execPathOf = ({ folder }: PlacedMesh) => join(folder, "bin", "cpi");

const REGISTRY: ProcessPlan = {
  service: "disk-registry",
  config: { heartbeat: { intervalMs: 500, timeoutMs: PATIENT_MS, probationMs: 500 } },
};

function dispatcherOf(mesh: PlacedMesh): object {
  const properties = { state_folder: vmsFolderOf(mesh), agent: { heartbeat_interval_ms: BEAT_INTERVAL_MS } };
  return {
    cpis: [
      { name: "fleet", type: "fleet" },
      { name: "process", type: "process", execPath: execPathOf(mesh), properties },
    ],
  };
}

function directorOf(mesh: PlacedMesh, access: AgentAccess, certificates: ReplacedFiles): object {
  const nats = mesh.address("nats");
  return {
    nats: { servers: [nats], tls: certificates.mbusFiles("director") },
    nodes: { registries: [{ address: mesh.address("disk-registry") }] },
    agents: {
      settings: { mbus: { urls: [`nats://${nats}`] } },
      natsIssuerSeedFile: access.config.agents.natsIssuerSeedFile,
      certificates: {
        authority: access.config.agents.certificates.authority,
        // Agents' certificates are replaced after a third of their validity, which is as often as other certificates.
        validDays: 3,
      },
    },
    tuning: { agents: { certificateCheckIntervalMs: 1_000 } },
  };
}

function agentOf(hostId: string, certificates: ReplacedFiles): ProcessPlan {
  return {
    service: "disk-agent",
    name: hostId,
    devices: { count: DEVICES_PER_HOST, sizeBytes: MIB_BYTES },
    config: (mesh) => ({
      nats: { servers: [mesh.address("nats")], tls: certificates.mbusFiles(`disk-agent-${hostId}`) },
      remoteIoTimeoutMs: 2 * PATIENT_MS,
      tuning: { mbusHeartbeatIntervalMs: BEAT_INTERVAL_MS, heartbeatTimeoutMs: PATIENT_MS },
    }),
  };
}
