import type { DeviceId, DiskId, HostId, IoLimits, Stamp } from "@diskmesh/domain";
import type { Run } from "./runs.js";

/**
 * State that the agent must keep over restarts; it is on disk before the agent acts on it. Immutable: a decision
 * returns the next memory.
 */
export interface AgentMemory {
  readonly hostId: HostId;
  /** Id of the tablet that the agent obeys; empty before the first registration. */
  readonly tabletId: string;
  /** Incarnation of that tablet that the agent obeys; empty before the first registration. */
  readonly incarnation: string;
  /** Ended predecessors of the obeyed incarnation, the latest last. Their orders are refused for good. */
  readonly formerIncarnations: readonly string[];
  /** Highest tablet generation seen of the obeyed incarnation. */
  readonly tabletGeneration: number;
  readonly devices: ReadonlyMap<DeviceId, DeviceMemory>;
  readonly exports: ReadonlyMap<DiskId, ExportMemory>;
  /**
   * Floor for disks that are not in `exports`: their sessions up to this number are outdated. Covers ended exports that
   * are no longer listed.
   */
  readonly exportFloor: number;
  /** Port of the listener for holders on other hosts, who reconnect there; absent until one was told. */
  readonly blockPort?: number | undefined;
}

export type OrderKind = "attach" | "detach";

export interface RememberedOrder {
  readonly tabletGeneration: number;
  /**
   * 0 for an order of a former incarnation: its kind still applies, but each order of the present incarnation is newer.
   */
  readonly deviceGeneration: number;
  readonly kind: OrderKind;
}

/** The session that was opened last on the bytes of a run. */
export interface RememberedSession extends Run {
  readonly number: number;
  readonly purpose: "disk" | "erase" | "label";
  /** Disk of the session; empty for an erase and a label. */
  readonly diskId: string;
  /** Host that may do I/O; empty for an erase, a label, and a session that only fences. */
  readonly holderHostId: string;
  /** True when the session was ended, also because other bytes were attached: no I/O before a higher session. */
  readonly ended: boolean;
  /** Key in hex that a holder on another host proves. Absent without such a holder. Secret. */
  readonly sessionKey?: string | undefined;
}

/**
 * Identity of a device as the registry recorded it. Only a file with this identity is held for the device. The path may
 * change.
 */
export interface RememberedIdentity {
  readonly offsetBytes: number;
  /** Size in bytes; 0 when the registry knows nothing of the file. */
  readonly sizeBytes: number;
  readonly blockSizeBytes: number;
  readonly serialNumber: string;
  readonly fileIdentity: string;
}

export interface DeviceMemory {
  readonly order?: RememberedOrder;
  /** Absent after a detach order: the next attach order brings the identity. */
  readonly identity?: RememberedIdentity | undefined;
  /** Identity before the last detach order, of which `sessions` are; absent once the device is attached again. */
  readonly formerIdentity?: RememberedIdentity | undefined;
  /** Label that the device is known to carry, as the registry said or the agent wrote it; absent while none is known. */
  readonly labelId?: string | undefined;
  /** Sessions by offset. No two of them have a byte in common. */
  readonly sessions?: readonly RememberedSession[];
  /** Sessions up to this number that are not in `sessions` are refused: their runs were forgotten. Absent for 0. */
  readonly floor?: number;
  /** Hardware error that the registry has not acknowledged yet. */
  readonly hardwareError?: string | undefined;
  /**
   * Approximate time of the hardware error's last occurrence, by this agent's wall clock. Absent without an error, and
   * in caches of the previous release.
   */
  readonly hardwareErrorAtMs?: number | undefined;
}

/** Bytes of a run of a device that are part of a disk that is served. */
export interface ExportDevice {
  readonly deviceId: DeviceId;
  readonly hostId: HostId;
  readonly sizeBytes: number;
  /** First byte on the device; absent for 0. */
  readonly offsetBytes?: number | undefined;
  /** Bytes since the start of the run's first part, from which these were split; absent for 0. */
  readonly skipBytes?: number | undefined;
  /** Session on the device; absent for the export's. */
  readonly sessionNumber?: number | undefined;
  /** Address of a device of another host; empty for one of this host. */
  readonly blockAddress: string;
  /** Key in hex of the session on a device of another host; empty for one of this host. Secret. */
  readonly sessionKey: string;
}

export interface ExportExtent extends ExportDevice {
  /** Device to which the part moves. */
  readonly target?: ExportTarget | undefined;
}

export interface ExportTarget extends ExportDevice {
  /** Maximum rate of copying; 0 for no limit. */
  readonly bytesPerSecond: number;
  /**
   * Bytes from the start that are alike when the session begins; absent for 0. Caches do not keep it: a later life does not know
   * what an earlier one has changed.
   */
  readonly copiedBytes?: number | undefined;
}

export interface ExportSpec {
  readonly diskId: DiskId;
  readonly sessionNumber: number;
  readonly blockSizeBytes: number;
  readonly extents: readonly ExportExtent[];
  readonly readOnly?: true | undefined;
  /** Absent when nothing is limited. */
  readonly limits?: IoLimits | undefined;
  /** Absent when the agent chooses. */
  readonly exportKind?: ExportKind | undefined;
  /** Number of changes of limits and extents within the session; absent for 0. */
  readonly revision?: number | undefined;
}

/** Form of an export. */
type ExportKind = "DEVICE" | "NBD";

export interface ExportMemory {
  /** Highest session number of an order to export the disk, or to end its export. */
  readonly sessionNumber: number;
  /** Export to serve; absent when the export was ended. */
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

/**
 * Returns the stamp of the last obeyed order for a device, in the present incarnation; undefined when there is none.
 */
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

/** Returns whether the device is to be held: its last order was an attach, or it has had no order (seed 004). */
export function isWanted(memory: AgentMemory, deviceId: DeviceId): boolean {
  return memory.devices.get(deviceId)?.order?.kind !== "detach";
}

/** Device maps that only a running `decideEach` references, so that they may be changed in place. */
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
 * Makes all decisions on a single copy of the device map, because copying the map for each of thousands of devices
 * takes seconds. `decide` must not keep the memory that it is given, other than by returning it.
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

/** Stores the device's identity from an order or from the answer to a registration. */
export function rememberIdentity(
  memory: AgentMemory,
  deviceId: DeviceId,
  { offsetBytes, sizeBytes, blockSizeBytes, serialNumber, fileIdentity }: RememberedIdentity,
): AgentMemory {
  const identity = { offsetBytes, sizeBytes, blockSizeBytes, serialNumber, fileIdentity };
  // An unchanged identity causes no cache write, because every registration repeats all of them.
  if (isSameIdentity(memory.devices.get(deviceId)?.identity, identity)) return memory;
  return withDevice(memory, deviceId, { identity });
}

export function isSameIdentity(one: RememberedIdentity | undefined, other: RememberedIdentity | undefined): boolean {
  const fieldsOf = (of: RememberedIdentity | undefined) =>
    of && [of.offsetBytes, of.sizeBytes, of.blockSizeBytes, of.serialNumber, of.fileIdentity];
  return JSON.stringify(fieldsOf(one)) === JSON.stringify(fieldsOf(other));
}
