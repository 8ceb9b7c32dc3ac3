import type { DeviceId, DiskId, HostId, Stamp } from "@diskmesh/domain";

/**
 * State that the agent must not lose; it is on disk before the agent acts on it. It is immutable; a decision returns
 * the next memory.
 */
export interface AgentMemory {
  readonly hostId: HostId;
  /** Tablet whose orders are obeyed; empty until the first registration. */
  readonly tabletId: string;
  /** Only incarnation of that tablet that is obeyed. While empty, every incarnation of the tablet is. */
  readonly incarnation: string;
  /** Ended incarnations that the obeyed one descends from, the latest last. They are refused for good. */
  readonly formerIncarnations: readonly string[];
  /** Highest generation seen of that incarnation. */
  readonly tabletGeneration: number;
  readonly devices: ReadonlyMap<DeviceId, DeviceMemory>;
  readonly exports: ReadonlyMap<DiskId, ExportMemory>;
  /**
   * Exports of disks not in `exports` are outdated up to this session number. Covers ended exports that are no longer
   * listed.
   */
  readonly exportFloor: number;
}

export type OrderKind = "attach" | "detach";

export interface RememberedOrder {
  readonly tabletGeneration: number;
  /**
   * 0 for an order of a former incarnation: its kind still applies, and each order of the present incarnation is newer.
   */
  readonly deviceGeneration: number;
  readonly kind: OrderKind;
}

export interface RememberedSession {
  readonly number: number;
  readonly purpose: "disk" | "erase";
  /** Empty for an erase. */
  readonly diskId: string;
  /** Host that may do I/O; empty for an erase and for a session that only fences. */
  readonly holderHostId: string;
  /** The session has ended: no I/O until a higher session. */
  readonly ended: boolean;
}

/** Identity of a device as the registry recorded it. No other file is held for the device. Its path may change. */
export interface RememberedIdentity {
  readonly offsetBytes: number;
  /** 0 when the registry knows neither the size nor anything else of the file. */
  readonly sizeBytes: number;
  readonly blockSizeBytes: number;
  readonly serialNumber: string;
  readonly fileIdentity: string;
}

export interface DeviceMemory {
  readonly order?: RememberedOrder;
  /** Absent once the device was ordered detached: the next attach brings the identity. */
  readonly identity?: RememberedIdentity | undefined;
  readonly session?: RememberedSession;
  /** Hardware error, kept until the registry has received it and stores it. */
  readonly hardwareError?: string | undefined;
  /**
   * Approximate time of the last occurrence, by this agent's clock. Absent without an error, and from the previous
   * release.
   */
  readonly hardwareErrorAtMs?: number | undefined;
}

export interface ExportExtent {
  readonly deviceId: DeviceId;
  readonly hostId: HostId;
  readonly address: string;
  readonly sizeBytes: number;
}

export interface ExportSpec {
  readonly diskId: DiskId;
  readonly sessionNumber: number;
  readonly blockSizeBytes: number;
  readonly extents: readonly ExportExtent[];
}

export interface ExportMemory {
  /** Highest session number of an order to export the disk, or to end its export. */
  readonly sessionNumber: number;
  /** Export to serve; absent when it was ended. */
  readonly spec?: ExportSpec;
}

export function emptyMemory(hostId: HostId): AgentMemory {
  return {
    hostId,
    tabletId: "",
    incarnation: "",
    formerIncarnations: [],
    tabletGeneration: 0,
    devices: new Map(),
    exports: new Map(),
    exportFloor: 0,
  };
}

/** Returns the last obeyed stamp of the present incarnation for a device; undefined when there is none. */
export function lastStamp(memory: AgentMemory, deviceId: DeviceId): Stamp | undefined {
  const order = memory.devices.get(deviceId)?.order;
  if (order === undefined || order.deviceGeneration === 0) return undefined;
  return {
    tabletId: memory.tabletId,
    incarnation: memory.incarnation,
    tabletGeneration: order.tabletGeneration,
    deviceGeneration: order.deviceGeneration,
  };
}

/** Returns whether the device is to be held: a device that was never ordered detached is (seed 004). */
export function isWanted(memory: AgentMemory, deviceId: DeviceId): boolean {
  return memory.devices.get(deviceId)?.order?.kind !== "detach";
}

/** Maps that only a running `decideEach` references, and may therefore change in place. */
const ownCopies = new WeakMap<ReadonlyMap<DeviceId, DeviceMemory>, { isChanged: boolean }>();

export function withDevice(memory: AgentMemory, deviceId: DeviceId, change: DeviceMemory): AgentMemory {
  const own = ownCopies.get(memory.devices);
  const devices = own === undefined ? new Map(memory.devices) : (memory.devices as Map<DeviceId, DeviceMemory>);
  devices.set(deviceId, { ...devices.get(deviceId), ...change });
  if (own === undefined) return { ...memory, devices };
  own.isChanged = true;
  return memory;
}

/**
 * Makes one decision after the other on a single copy of the device map, because a copy for each of thousands of
 * devices takes seconds. `decide` must keep nothing of the memory that it is given but what it returns.
 */
export function decideEach<Item, Verdict>(
  memory: AgentMemory,
  items: readonly Item[],
  decide: (memory: AgentMemory, item: Item) => { memory: AgentMemory; verdict: Verdict },
): { memory: AgentMemory; verdicts: Verdict[] } {
  const own = { isChanged: false };
  const draft = { ...memory, devices: new Map(memory.devices) };
  ownCopies.set(draft.devices, own);
  let next: AgentMemory = draft;
  const verdicts = items.map((item) => {
    const decided = decide(next, item);
    next = decided.memory;
    return decided.verdict;
  });
  ownCopies.delete(draft.devices);
  return { memory: own.isChanged || next !== draft ? next : memory, verdicts };
}

/** Records the device's identity from an order or a registration's answer. */
export function rememberIdentity(
  memory: AgentMemory,
  deviceId: DeviceId,
  { offsetBytes, sizeBytes, blockSizeBytes, serialNumber, fileIdentity }: RememberedIdentity,
): AgentMemory {
  const identity = { offsetBytes, sizeBytes, blockSizeBytes, serialNumber, fileIdentity };
  // Unchanged devices cost no write, because every registration repeats all of them.
  if (JSON.stringify(memory.devices.get(deviceId)?.identity) === JSON.stringify(identity)) return memory;
  return withDevice(memory, deviceId, { identity });
}
