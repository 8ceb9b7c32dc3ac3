import type { DeviceId, DiskId, HostId, Stamp } from "@diskmesh/domain";

/**
 * What the agent must not forget: it is on disk before the agent acts on it. All of it is immutable; a decision returns
 * the next memory.
 */
export interface AgentMemory {
  readonly hostId: HostId;
  /** The tablet whose orders are obeyed; empty until the first registration. */
  readonly tabletId: string;
  /** The only incarnation of that tablet that is obeyed; empty until the agent heard of one: then each of that tablet is. */
  readonly incarnation: string;
  /** Incarnations that ended, the latest last: what is obeyed now came from them. They are refused for good. */
  readonly formerIncarnations: readonly string[];
  /** The highest generation seen of that incarnation. */
  readonly tabletGeneration: number;
  readonly devices: ReadonlyMap<DeviceId, DeviceMemory>;
  readonly exports: ReadonlyMap<DiskId, ExportMemory>;
  /** Exports of disks not in `exports` are outdated up to this session number: what ended ones left when they were dropped. */
  readonly exportFloor: number;
}

export type OrderKind = "attach" | "detach";

export interface RememberedOrder {
  readonly tabletGeneration: number;
  /** 0 for one of a former incarnation: its kind holds on, and each order of the present one is newer. */
  readonly deviceGeneration: number;
  readonly kind: OrderKind;
}

export interface RememberedSession {
  readonly number: number;
  readonly purpose: "disk" | "erase";
  /** Empty for an erase. */
  readonly diskId: string;
  /** The host that may do I/O; empty for an erase and for a session that only fences others off. */
  readonly holderHostId: string;
  /** Nobody is obeyed any more, until a higher session. */
  readonly ended: boolean;
}

/** The identity of a device that the registry recorded: nothing else is held under its name. Its path may change. */
export interface RememberedIdentity {
  readonly offsetBytes: number;
  /** 0: the registry never learned it, nor anything else of the file. */
  readonly sizeBytes: number;
  readonly blockSizeBytes: number;
  readonly serialNumber: string;
  readonly fileIdentity: string;
}

export interface DeviceMemory {
  readonly order?: RememberedOrder;
  /** Absent once the device was ordered detached: what is attached next is what the registry says then. */
  readonly identity?: RememberedIdentity | undefined;
  readonly session?: RememberedSession;
  /** What its hardware failed with, until the registry has been told: then it remembers that, whatever becomes of the agent. */
  readonly hardwareError?: string | undefined;
  /** By this agent's clock: about when that was met last. Absent with it, and from the last release. */
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
  /** The highest session number with which an export of the disk was ordered or ended. */
  readonly sessionNumber: number;
  /** What is to be served; absent when the export was ended. */
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

/** The last stamp of the present incarnation that was obeyed for a device; undefined when none was. */
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

/** Whether the device is to be held: a device that was never ordered detached is (seed 004). */
export function isWanted(memory: AgentMemory, deviceId: DeviceId): boolean {
  return memory.devices.get(deviceId)?.order?.kind !== "detach";
}

/** Maps that nobody but a `decideEach` under way has: it alone may change them in place. */
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
 * Decides one thing after the other, with one copy of the map of devices for all: one for each of thousands of devices
 * takes seconds. `decide` keeps nothing of the memory that it is given but what it returns.
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

/** The identity that the registry recorded of the device, with the order or registration that said so. */
export function rememberIdentity(
  memory: AgentMemory,
  deviceId: DeviceId,
  { offsetBytes, sizeBytes, blockSizeBytes, serialNumber, fileIdentity }: RememberedIdentity,
): AgentMemory {
  const identity = { offsetBytes, sizeBytes, blockSizeBytes, serialNumber, fileIdentity };
  // Unchanged devices cost no write: every registration tells all of them.
  if (JSON.stringify(memory.devices.get(deviceId)?.identity) === JSON.stringify(identity)) return memory;
  return withDevice(memory, deviceId, { identity });
}
