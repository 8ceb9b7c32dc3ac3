import { DiskRegistryServiceDefinition, HostState } from "@diskmesh/api/registry";
import { type Device, type Host, schema } from "@diskmesh/disk-registry/simulation";
import { parseDeviceId, parseHostId } from "@diskmesh/domain";
import { allPages, createClient, type TlsFiles } from "@diskmesh/rpc";
import { openStorage, Tablet } from "@diskmesh/tablet";
import { stormDeviceId, stormHostId } from "./storm-agents.js";

export const DEVICES_PER_AGENT = 16;
const HOSTS_PER_TRANSACTION = 200;

/** Stores the state of a registry whose hosts have long been in operation, without pending work. */
export async function storeFleet(
  storage: string,
  agents: number,
  devicesPerAgent = DEVICES_PER_AGENT,
): Promise<{ readonly tabletId: string; readonly incarnation: string }> {
  const tablet = await Tablet.open({
    name: "registry",
    schema,
    storage: openStorage(storage, "registry"),
    address: "",
  });
  try {
    for (let first = 0; first < agents; first += HOSTS_PER_TRANSACTION) {
      await tablet.transact((tx) => {
        for (let index = first; index < Math.min(agents, first + HOSTS_PER_TRANSACTION); index++) {
          tx.hosts.put(storedHost(index));
          for (let device = 0; device < devicesPerAgent; device++) tx.devices.put(storedDevice(index, device));
        }
        tx.counters.put({ name: "device_generation", value: agents * DEVICES_PER_AGENT });
      });
    }
    return { tabletId: tablet.id, incarnation: tablet.incarnation };
  } finally {
    await tablet.close();
  }
}

function storedHost(index: number): Host {
  return {
    hostId: parseHostId(stormHostId(index)),
    address: "127.0.0.1:1",
    az: "z1",
    rack: `rack-${index % 100}`,
    state: "ONLINE",
    stateMessage: "",
    stateChangedAtMs: 0,
    bootId: "before",
    removalRequested: false,
    createdAtMs: 0,
  };
}

function storedDevice(index: number, device: number): Device {
  return {
    deviceId: parseDeviceId(stormDeviceId(index, device)),
    hostId: parseHostId(stormHostId(index)),
    path: `/dev/disk/by-id/nvme-${device}`,
    offsetBytes: 0,
    sizeBytes: 64 * 1024 * 1024,
    blockSizeBytes: 4096,
    serialNumber: `serial-${index}-${device}`,
    pool: "default",
    health: "ONLINE",
    healthMessage: "",
    attachState: "ATTACHED",
    generation: index * DEVICES_PER_AGENT + device + 1,
    attempts: 0,
    lastError: "",
    dirty: false,
    removalRequested: false,
    detachConfirmed: false,
    diskId: "",
    eraseSessionNumber: 0,
    stateChangedAtMs: 0,
  };
}

/** Returns the number of hosts that are ONLINE with this boot id. */
export async function countOnline(address: string, tls: TlsFiles, bootId: string): Promise<number> {
  const registry = createClient(DiskRegistryServiceDefinition, {
    address,
    tls,
    serverRole: "disk-registry",
    defaultDeadlineMs: 60_000,
  });
  try {
    const all = await allPages(async (pageToken) => {
      const { hosts, nextPageToken } = await registry.listHosts({ pageSize: 1_000, pageToken });
      return { items: hosts, nextPageToken };
    });
    return all.filter((host) => host.state === HostState.ONLINE && host.bootId === bootId).length;
  } finally {
    registry.close();
  }
}
