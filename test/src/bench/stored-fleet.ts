import { type Device, type Host, schema } from "@diskmesh/disk-registry/simulation";
import { parseDeviceId, parseHostId } from "@diskmesh/domain";
import { openStorage, Tablet } from "@diskmesh/tablet";

export const DEVICES_PER_HOST = 16;
const HOSTS_PER_TRANSACTION = 100;

export const hostIdOf = (host: number): string => `rack-7-host-${`${host}`.padStart(5, "0")}`;
export const deviceIdOf = (host: number, device: number): string => `${hostIdOf(host)}-device-${device}`;

/** Stores the state of a registry whose hosts have long been in operation, without pending work. */
export async function storeFleet(
  storage: string,
  hosts: number,
  name = "registry",
): Promise<{ readonly tabletId: string; readonly incarnation: string }> {
  const opened = { name: "registry", schema, storage: openStorage(storage, name), address: "" };
  await using tablet = await Tablet.open(opened);
  for (let first = 0; first < hosts; first += HOSTS_PER_TRANSACTION) {
    await tablet.transact((tx) => {
      for (let host = first; host < Math.min(hosts, first + HOSTS_PER_TRANSACTION); host++) {
        tx.hosts.put(storedHost(host));
        for (let device = 0; device < DEVICES_PER_HOST; device++) tx.devices.put(storedDevice(host, device));
      }
      tx.counters.put({ name: "device_generation", value: hosts * DEVICES_PER_HOST });
    });
  }
  return { tabletId: tablet.id, incarnation: tablet.incarnation };
}

export function storedHost(host: number): Host {
  return {
    hostId: parseHostId(hostIdOf(host)),
    address: "127.0.0.1:1",
    az: "z1",
    rack: `rack-${host % 100}`,
    state: "ONLINE",
    stateMessage: "",
    stateChangedAtMs: 0,
    bootId: "before",
    removalRequested: false,
    createdAtMs: 0,
  };
}

/** Returns the identity of a device as an agent reports it, with names as long as those of real drives. */
export function identityOf(host: number, device: number) {
  const serialNumber = `S64GNE0R${`${host * DEVICES_PER_HOST + device}`.padStart(6, "0")}`;
  return {
    path: `/dev/disk/by-id/nvme-MZQL21T9HCJR-00A07_${serialNumber}`,
    offsetBytes: 0,
    sizeBytes: 1_920_383_410_176,
    blockSizeBytes: 4_096,
    serialNumber,
    // The boot of a machine and a drive of it.
    fileIdentity: `3f2b8c1e-7d1f-4b5e-9d2a-${`${host}`.padStart(12, "0")} 259:${device}`,
    pool: "default",
  };
}

export function storedDevice(host: number, device: number): Device {
  return {
    ...identityOf(host, device),
    deviceId: parseDeviceId(deviceIdOf(host, device)),
    hostId: parseHostId(hostIdOf(host)),
    health: "ONLINE",
    healthMessage: "",
    attachState: "ATTACHED",
    generation: host * DEVICES_PER_HOST + device + 1,
    attempts: 0,
    lastError: "",
    runs: [],
    removalRequested: false,
    detachConfirmed: false,
    stateChangedAtMs: 1_763_800_000_000,
  };
}
