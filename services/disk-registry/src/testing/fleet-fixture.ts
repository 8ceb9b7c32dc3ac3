import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { MemoryTables } from "@diskmesh/tablet";
import type { Leader } from "../model/devices/orders.js";
import { deleteDisk } from "../model/disks/deleted-disks.js";
import { partsOn } from "../model/store/layout.js";
import { diskOn, eraseSessionOf, isDirty, withRunOfVersion1 } from "../model/store/runs.js";
import {
  type Device,
  type Disk,
  type Host,
  type RegistrySchema,
  type RegistryTransaction,
  schema,
} from "../model/store/schema.js";

/** Builds fleets in memory from data, for tests of the model. */
export const MIB = 1024 * 1024;
export const leader: Leader = { tabletId: "tablet-1", incarnation: "incarnation-1", tabletGeneration: 7 };

/** Report of an agent that obeys this leader and remembers only numbers that this leader gave. */
export const remembered = {
  tabletId: leader.tabletId,
  incarnation: leader.incarnation,
  tabletGeneration: 7,
  deviceGeneration: 0,
  sessionNumber: 0,
};

export const hostId = (id: string): HostId => id as HostId;
export const deviceId = (id: string): DeviceId => id as DeviceId;
export const diskId = (id: string): DiskId => id as DiskId;

export function aHost(id: string, fields: Partial<Host> = {}): Host {
  return {
    hostId: hostId(id),
    address: "127.0.0.1:7040",
    az: "z1",
    rack: "r1",
    state: "ONLINE",
    stateMessage: fields.state === "UNAVAILABLE" ? `host ${id} is UNAVAILABLE: no heartbeat` : "",
    stateChangedAtMs: 0,
    bootId: `${id}-boot-1`,
    removalRequested: false,
    createdAtMs: 0,
    ...fields,
  };
}

/** Facts of a device whose bytes are all in one run, or all free. */
interface OfRun {
  readonly diskId: DiskId | "";
  readonly dirty: boolean;
  readonly eraseSessionNumber: number;
}

export type DeviceFields = Partial<Device & OfRun>;
export type SeenDevice = Device & OfRun;

export function aDevice(id: string, fields: DeviceFields = {}): Device {
  return withRunOfVersion1({
    deviceId: deviceId(id),
    hostId: hostId("h1"),
    path: `/dev/${id}`,
    offsetBytes: 0,
    sizeBytes: 64 * MIB,
    blockSizeBytes: 4096,
    serialNumber: `serial-${id}`,
    pool: "default",
    health: "ONLINE",
    healthMessage: "",
    attachState: "ATTACHED",
    generation: 1,
    attempts: 0,
    lastError: "",
    dirty: false,
    removalRequested: false,
    detachConfirmed: false,
    diskId: "",
    eraseSessionNumber: 0,
    stateChangedAtMs: 0,
    ...fields,
  }) as Device;
}

export function aDisk(id: string, deviceIds: readonly string[], fields: Partial<Disk> = {}): Disk {
  return {
    diskId: diskId(id),
    requested: { sizeBytes: MIB, az: "z1", hostId: "", pool: "default", spreadRacks: false },
    sizeBytes: 64 * MIB * deviceIds.length,
    blockSizeBytes: 4096,
    az: "z1",
    parts: partsOn(deviceIds.map((each) => ({ deviceId: deviceId(each), sizeBytes: 64 * MIB }))),
    labels: [],
    createdAtMs: 0,
    ...fields,
  };
}

/** Deletes the disk without a grace, and returns the devices to erase. */
export function deletedNow(tx: RegistryTransaction, id: DiskId): readonly DeviceId[] {
  return deleteDisk(tx, id, { by: "operator/ann", nowMs: 0, graceMsOf: () => 0, skipGrace: false }).freed;
}

export interface Fleet {
  readonly hosts?: readonly Host[];
  readonly devices?: readonly Device[];
  readonly disks?: readonly Disk[];
  /** Last device generation given out; 100 by default. */
  readonly generation?: number;
  /** Last session number given out; 200 by default. */
  readonly session?: number;
}

export class TestFleet {
  readonly #memory = new MemoryTables<RegistrySchema>(schema);
  readonly tables = this.#memory.tables;

  constructor(fleet: Fleet) {
    this.transact((tx) => {
      for (const host of fleet.hosts ?? [aHost("h1")]) tx.hosts.put(host);
      for (const device of fleet.devices ?? []) tx.devices.put(device);
      for (const disk of fleet.disks ?? []) tx.disks.put(disk);
      tx.counters.put({ name: "device_generation", value: fleet.generation ?? 100 });
      tx.counters.put({ name: "session_number", value: fleet.session ?? 200 });
    });
  }

  transact<T>(fn: (tx: RegistryTransaction) => T): T {
    return this.#memory.transact(fn).result;
  }

  /** Stand-in for a tablet; every change is durable at once. */
  readonly tablet = {
    read: async <T>(fn: (tables: TestFleet["tables"]) => T): Promise<T> => fn(this.tables),
    transact: async <T>(fn: (tx: RegistryTransaction) => T): Promise<T> => this.transact(fn),
  };

  /** Returns the number of documents that a transaction would store. */
  changes(fn: (tx: RegistryTransaction) => unknown): number {
    return this.#memory.transact(fn).changes.length;
  }

  device(id: string): Device {
    const device = this.tables.devices.get(id);
    if (device === undefined) throw new Error(`the fleet has no device ${id}`);
    return device;
  }

  /** Returns the device with the facts of its run. */
  seen(id: string): SeenDevice {
    const device = this.device(id);
    const [diskId, dirty, eraseSessionNumber] = [diskOn(device), isDirty(device), eraseSessionOf(device)];
    return { ...device, diskId, dirty, eraseSessionNumber };
  }

  host(id: string): Host {
    const host = this.tables.hosts.get(id);
    if (host === undefined) throw new Error(`the fleet has no host ${id}`);
    return host;
  }

  disk(id: string): Disk {
    const disk = this.tables.disks.get(id);
    if (disk === undefined) throw new Error(`the fleet has no disk ${id}`);
    return disk;
  }
}
