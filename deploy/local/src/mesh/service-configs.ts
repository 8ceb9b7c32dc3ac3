import { join } from "node:path";
import { replaceFile } from "@diskmesh/atomic-file";
import { parseHostPort } from "@diskmesh/domain";
import { programOnPath } from "@diskmesh/process-cpi";
import { stringify } from "yaml";
import { BOSH_USER, boshLogin } from "./bosh-login.js";
import { agentName, DEVICES_PER_HOST, deviceIdOf, HOSTS, type LocalHost, type MeshLayout } from "./layout.js";
import { writeNatsConfig } from "./nats-config.js";

/** Writes the config files of all processes. */
export async function writeConfigs(layout: MeshLayout): Promise<void> {
  const { passwordHash } = await boshLogin(layout);
  const configs = new Map<string, object>([
    ["director", directorConfig(layout, passwordHash)],
    ["cpi-dispatcher", dispatcherConfig(layout)],
    ["disk-registry", registryConfig(layout)],
    ...HOSTS.map((host) => [agentName(host.hostId), agentConfig(layout, host)] as const),
  ]);
  for (const [name, config] of configs) {
    const metrics = { listen: parseHostPort("address", layout.metricsAddresses.get(name) ?? "") };
    await replaceFile(layout.configFile(name), stringify({ ...config, metrics }));
  }
  await writeNatsConfig(layout);
}

function directorConfig(layout: MeshLayout, passwordHash: string): object {
  return {
    listen: parseHostPort("address", layout.addressOf("director")),
    tls: layout.tlsFiles("director"),
    tablet: layout.tablet("director"),
    stemcells: { folder: join(layout.dataFolder("director"), "stemcells") },
    dispatcher: { address: layout.addressOf("cpi-dispatcher") },
    nats: { servers: [layout.natsAddress] },
    agents: {
      settings: { mbus: { urls: [`nats://${layout.natsAddress}`] } },
      logs: { folder: join(layout.dataFolder("director"), "agent-logs") },
      natsIssuerSeedFile: layout.natsIssuerSeedFile,
      certificates: { authority: layout.agentAuthority },
    },
    dynamicDisks: { enabled: true },
    nodes: { registries: [{ address: layout.addressOf("disk-registry") }] },
    http: {
      listen: parseHostPort("address", layout.directorHttpsAddress),
      users: [{ name: BOSH_USER, passwordHash }],
    },
  };
}

function dispatcherConfig(layout: MeshLayout): object {
  return {
    listen: parseHostPort("address", layout.addressOf("cpi-dispatcher")),
    tls: layout.tlsFiles("cpi-dispatcher"),
    registry: { address: layout.addressOf("disk-registry") },
    cpis: [{ name: "fleet", type: "fleet" }, processCpiConfig(layout)],
    executables: { jobsFolder: layout.processCpi.jobsFolder, runFolder: layout.dataFolder("cpi-dispatcher") },
  };
}

/** VMs of this CPI run a bosh-agent if one is installed. */
function processCpiConfig(layout: MeshLayout): object {
  const { stateFolder } = layout.processCpi;
  const path = programOnPath("bosh-agent");
  const agent = path === undefined ? {} : { path };
  return { name: "process", type: "process", properties: { state_folder: stateFolder, agent } };
}

function registryConfig(layout: MeshLayout): object {
  return {
    listen: parseHostPort("address", layout.addressOf("disk-registry")),
    tls: layout.tlsFiles("disk-registry"),
    tablet: layout.tablet("disk-registry"),
    advertisedAddress: layout.addressOf("disk-registry"),
  };
}

function agentConfig(layout: MeshLayout, { hostId, az, rack }: LocalHost): object {
  const name = agentName(hostId);
  return {
    hostId,
    az,
    rack,
    listen: parseHostPort("address", layout.agentAddress(hostId)),
    blockListen: parseHostPort("address", layout.blockAddress(hostId)),
    tls: layout.tlsFiles(name),
    registry: { address: layout.addressOf("disk-registry") },
    baseFolder: layout.dataFolder(name),
    engine: layout.engine,
    devices: Array.from({ length: DEVICES_PER_HOST }, (_, index) => ({
      deviceId: deviceIdOf(hostId, index),
      path: layout.deviceFile(hostId, index),
    })),
    nats: { servers: [layout.natsAddress] },
  };
}
