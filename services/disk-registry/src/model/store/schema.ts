import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import type { Table, Tables, Transaction } from "@diskmesh/tablet";
import { type EventKind, eventKey, type RegistryEvent } from "./registry-event.js";

/**
 * Whether a host's agent is heard from. Nothing new is placed on a host that is not ONLINE. DEAD is an operator's word, that
 * another one takes back: whether its agent is heard changes nothing.
 */
type HostState = "ONLINE" | "WARNING" | "UNAVAILABLE" | "DEAD";

/** What an operator said, and why. */
export interface OperatorsWord {
  readonly by: string;
  readonly atMs: number;
  readonly reason: string;
}

/** What agents and operators say of a device's hardware; says nothing of whether it may be used. */
export type Health = "ONLINE" | "WARNING" | "ERROR";

/** The host serves as a VM of the fleet CPI. */
export interface VmAssignment {
  readonly vmCid: string;
  readonly assignedAtMs: number;
}

/** One disk agent. The time of its last heartbeat is not here: it lives in memory only. */
export interface Host {
  readonly hostId: HostId;
  readonly address: string;
  readonly az: string;
  readonly rack: string;
  readonly state: HostState;
  readonly stateMessage: string;
  /** When `state` last changed. */
  readonly stateChangedAtMs: number;
  readonly bootId: string;
  /** Starts of its agent that later ones replaced, the latest last; absent when none is known. */
  readonly formerBootIds?: readonly string[] | undefined;
  /** With WARNING after it was UNAVAILABLE: when it counts as ONLINE again. */
  readonly probationEndsAtMs?: number | undefined;
  /** With DEAD: whose word that is. */
  readonly saidDead?: OperatorsWord | undefined;
  readonly removalRequested: boolean;
  /**
   * What this registry knows of it may be outdated: a device was purged or a disk was taken away while nobody could tell its
   * agent, the host is DEAD, or the tablet was restored or copied back. No heartbeat counts, and no order is given, before
   * its agent has registered again.
   */
  readonly mustRegister?: true | undefined;
  /**
   * When it registered last it served disks that nobody wants there. That they are to be ended is in memory only: the next
   * leader has it register again.
   */
  readonly servesUnwanted?: true | undefined;
  readonly assignment?: VmAssignment | undefined;
  /** Why its agent wants nothing new there; absent when it does not say so. */
  readonly agentWarning?: string | undefined;
  /** With UNAVAILABLE: `Vigil.listenedMs` when its silence began to count for the removal timeout; absent: not yet. */
  readonly silentAtListenedMs?: number | undefined;
  /** Written by 0.1.0, and read by nobody. */
  readonly removalCountsFromMs?: number | undefined;
  /** Devices that it reported at last under ids of other hosts' devices; the first so many. */
  readonly foreignDevices?: readonly ForeignDevice[] | undefined;
  readonly createdAtMs: number;
}

/** A device's id, and the host whose it is. */
export interface ForeignDevice {
  readonly deviceId: DeviceId;
  readonly hostId: HostId;
}

/** What makes a device the same device. An empty serial number or file identity says nothing. */
export interface DeviceIdentity {
  readonly path: string;
  readonly offsetBytes: number;
  readonly sizeBytes: number;
  readonly blockSizeBytes: number;
  readonly serialNumber: string;
  /** Which file or drive it is, as its agent's operating system tells them apart; absent when never told. */
  readonly fileIdentity?: string | undefined;
}

/**
 * How far a device is from being usable (seed 004), by what the registry knows of its agent:
 * UNKNOWN    an agent reported it, nobody added it: the agent is not to hold it
 * ATTACHING  the agent is to hold it, and has not confirmed the current generation
 * ATTACHED   the agent confirmed that it holds it
 * CLOSING    the agent is to let go of it, and has not confirmed
 * DETACHED   the agent confirmed that it let go, or nobody can (`detachConfirmed` is false)
 */
export type AttachState = "UNKNOWN" | "ATTACHING" | "ATTACHED" | "CLOSING" | "DETACHED";

/** A session that an agent remembers, and that this registry never gave. */
export interface UnknownSession {
  readonly sessionNumber: number;
  /** Empty for an erase. */
  readonly diskId: DiskId | "";
}

/** What an agent waits for before it has done what it was ordered, as it said last. */
export interface Pending {
  readonly message: string;
  /** Since when the oldest of it runs. */
  readonly sinceMs: number;
  /** What the host's operating system has not answered. */
  readonly inFlightOperations: number;
}

/** The same, of one of several devices. */
export interface PendingDevice extends Pending {
  readonly deviceId: DeviceId;
}

/** What stays said of a device's hardware until an operator says otherwise, and what its agent says meanwhile. */
export interface KeptHealth {
  readonly hardwareError?: { readonly message: string; readonly atMs: number } | undefined;
  readonly said?: (OperatorsWord & { readonly health: Exclude<Health, "ONLINE"> }) | undefined;
  readonly reported: { readonly health: Health; readonly healthMessage: string };
}

export interface Device extends DeviceIdentity {
  readonly deviceId: DeviceId;
  readonly hostId: HostId;
  readonly pool: string;
  /** The worst of what its agent says and what is kept. */
  readonly health: Health;
  readonly healthMessage: string;
  readonly keptHealth?: KeptHealth | undefined;
  /** When an operator said last that it is ONLINE: an error of its hardware from before that does not count. */
  readonly saidWellAtMs?: number | undefined;
  /** Since when its agent says that it is not ONLINE; absent when it does not, or that was not recorded. */
  readonly unwellSinceMs?: number | undefined;
  readonly attachState: AttachState;
  /** The counter's value at the event that caused its last order. */
  readonly generation: number;
  /** Failed or unanswered tries of the current order. */
  readonly attempts: number;
  readonly lastError: string;
  /** Why the current order is not done, though it did not fail. */
  readonly pending?: Pending | undefined;
  /** Holds data of a former disk, or nobody knows what. */
  readonly dirty: boolean;
  readonly removalRequested: boolean;
  /** Since when; absent when that was not recorded. */
  readonly removalRequestedAtMs?: number | undefined;
  /** Part of that wish: it is taken out as it is, not erased. */
  readonly keepData?: true | undefined;
  /** Its agent has confirmed the detach of the current generation. While false, a device that is not to be held is ordered detached. */
  readonly detachConfirmed: boolean;
  /** Empty when free. */
  readonly diskId: DiskId | "";
  /** The session under which it is being erased; 0 when none was taken. */
  readonly eraseSessionNumber: number;
  /**
   * The highest session that was given for the device while no disk was on it, or for a disk that has left it; absent when
   * that was not recorded. Those of the disk that is on it are the disk's.
   */
  readonly lastSessionNumber?: number | undefined;
  /** Its agent remembers it for another disk or an erase: whose data is on the device is unknown, until an operator decides. */
  readonly unknownSession?: UnknownSession | undefined;
  readonly stateChangedAtMs: number;
  /** Its agent's last registration did not tell of it. */
  readonly missing?: true | undefined;
  /** Its agent's last registration described it in a form that was refused: what is stored may be outdated. */
  readonly refused?: true | undefined;
  /** The hardware that its agent found in its place, until AddDevice accepts it or ConfirmDevice says that it is the device. */
  readonly replacement?: DeviceIdentity | undefined;
  /** The size of its file or drive, which has grown; AddDevice takes it in once no disk is on the device. */
  readonly grownToBytes?: number | undefined;
}

/**
 * Where a disk is between unpublished (no publication) and published.
 * PUBLISHING: its devices may or may not have granted the session; the host may or may not serve it.
 * PUBLISHED: every device has granted the session and the host serves it.
 * UNPUBLISHING: older sessions may still change bytes until every device has granted this one, whose holder is nobody.
 */
type PublicationState = "PUBLISHING" | "PUBLISHED" | "UNPUBLISHING";

export interface Publication {
  readonly hostId: HostId;
  readonly state: PublicationState;
  readonly sessionNumber: number;
  readonly exportPath: string;
  readonly attempts: number;
  readonly lastError: string;
  /** It is taken from the host by itself when the host is UNAVAILABLE; absent: only when somebody says so. */
  readonly onHostSilence?: "FENCE" | undefined;
  /** Devices that wait before they grant the session; absent when none said so at the last try. */
  readonly pending?: readonly PendingDevice[] | undefined;
  /** No device was asked for its session, nor for one before it: it can be taken back without a fence. */
  readonly unasked?: true | undefined;
}

/** That a disk was taken from a host without asking it. */
export interface Fence {
  readonly hostId: HostId;
  /** An operator, or this registry. */
  readonly by: string;
  readonly atMs: number;
  readonly reason: string;
}

/** A name and a value; a list of them, never an object, since names that users choose are never field names in a store. */
export interface Label {
  readonly name: string;
  readonly value: string;
}

/** What CreateDisk was asked for: the same again finds the disk, anything else contradicts it. */
export interface DiskRequest {
  readonly sizeBytes: number;
  /** Empty when only a host was named. */
  readonly az: string;
  /** Empty for any host of the az. */
  readonly hostId: HostId | "";
  readonly pool: string;
  readonly spreadRacks: boolean;
}

export interface Disk {
  readonly diskId: DiskId;
  readonly requested: DiskRequest;
  readonly sizeBytes: number;
  readonly blockSizeBytes: number;
  readonly az: string;
  readonly deviceIds: readonly DeviceId[];
  readonly publication?: Publication | undefined;
  /** How its last publication ended, or ends, if that was a fence; forgotten with the next one. */
  readonly fence?: Fence | undefined;
  /** The highest session that was given for it; absent when none was, or that was not recorded. */
  readonly lastSessionNumber?: number | undefined;
  readonly labels: readonly Label[];
  readonly createdAtMs: number;
}

/** Values of a counter that were skipped: this registry gave none of them, and others may have. */
export interface Gap {
  /** All values above this one. */
  readonly above: number;
  readonly upTo: number;
  /** When an agent's word alone was the reason; absent when it was a restore's or an operator's. */
  readonly reportedAtMs?: number | undefined;
}

export interface Counter {
  readonly name: CounterName;
  /** The last value given out, or skipped. */
  readonly value: number;
  /** In order; the last so many. */
  readonly gaps?: readonly Gap[] | undefined;
}

export type CounterName = "device_generation" | "session_number";

/** An incarnation that is not this registry's: one that an agent obeys, or that an operator had this registry adopt. */
export interface OtherFleet {
  readonly tabletId: string;
  /** Empty for agents that never heard of one. */
  readonly incarnation: string;
  /** Whose agent was the first to tell of it; empty when an operator was. */
  readonly hostId: HostId | "";
  readonly heardAtMs: number;
  /** Absent: this registry stands still while it is of its own tablet. */
  readonly adoptedAtMs?: number | undefined;
}

/** What had been given when a leader of that generation began. */
export interface Start {
  readonly tabletGeneration: number;
  readonly deviceGeneration: number;
  readonly sessionNumber: number;
}

/** Whether nobody counts on the host's agent to answer. */
export function isAway({ state }: Pick<Host, "state">): boolean {
  return state === "UNAVAILABLE" || state === "DEAD";
}

/**
 * Whether a disk may be placed on the device, as far as the device itself says.
 * @public the simulator's mistakes use it by name
 */
export function isFree(device: Device): boolean {
  const isSound = !device.dirty && device.health === "ONLINE" && device.sizeBytes > 0;
  return isHeldEmpty(device) && isSound && !device.removalRequested && device.unknownSession === undefined;
}

/** Whether the device must be erased now, before it is used again or taken out of operation. */
export function isErasable(device: Device): boolean {
  const isEmpty = isHeldEmpty(device) && device.unknownSession === undefined;
  return isEmpty && device.dirty && device.health !== "ERROR" && !device.keepData;
}

function isHeldEmpty(device: Device): boolean {
  return device.attachState === "ATTACHED" && device.diskId === "";
}

/** Returns whether nothing is placed on the device because of what an operator is to decide of it, or has said. */
function isOverridden(device: Device): boolean {
  return isHeldEmpty(device) && (device.unknownSession !== undefined || device.keptHealth?.said !== undefined);
}

/** Whether its agent has yet to confirm the device's current generation, and is to be told of it. */
export function awaitsOrder(device: Device): boolean {
  if (isLeftAlone(device)) return false;
  return device.attachState === "ATTACHING" || (device.attachState !== "ATTACHED" && !device.detachConfirmed);
}

/**
 * Whether its agent goes on with the device as it did: a disk that this registry knows nothing of may be in use there, and
 * only an operator's word takes it away.
 */
export function isLeftAlone(device: Device): boolean {
  return device.unknownSession !== undefined && device.attachState !== "ATTACHING" && !device.keepData;
}

/** What a leader that looks after hosts leaves to the next one. There is one. */
export interface Vigil {
  readonly name: typeof VIGIL;
  /**
   * How long leaders of this tablet have been able to hear hosts, one after the other, as far as that was noted. By their
   * monotonic clocks: what is measured by it goes on where the leader before has ended. Absent: never noted.
   */
  readonly listenedMs?: number | undefined;
  /** Written by 0.1.0, and read by nobody. */
  readonly awakeAtMs?: number | undefined;
  /** A mass silence runs. */
  readonly massSilence?: true | undefined;
  /** When it was noticed. */
  readonly massSilenceSinceMs?: number | undefined;
}

export const VIGIL = "hosts";

/** Hosts whose agents were refused devices, in an index. */
export const LACKS_DEVICES = "devices";

// Plain objects typed as tables, with the names of their indexes: the model imports nothing of @diskmesh/tablet but types.
const table =
  <Doc>() =>
  <Index extends string>(definition: Table<Doc, Index>): Table<Doc, Index> =>
    definition;

const hosts = table<Host>()({
  key: (host) => host.hostId,
  indexes: {
    byAz: (host) => host.az,
    byVm: (host) => host.assignment?.vmCid,
    byLack: (host) => (host.foreignDevices === undefined ? undefined : LACKS_DEVICES),
  },
  queries: [["state", "stateChangedAtMs"]],
  // What was done after the backup is forgotten here, and remembered there.
  onRestore: (host) => ({ ...host, mustRegister: true }),
});

const devices = table<Device>()({
  key: (device) => device.deviceId,
  queries: [["hostId", "attachState"], ["attempts"]],
  indexes: {
    byHost: (device) => device.hostId,
    byFileIdentity: (device) => device.fileIdentity || undefined,
    bySerialNumber: (device) => device.serialNumber || undefined,
    usedByHost: (device) => (device.diskId === "" ? undefined : device.hostId),
    // No byte of either part can be the separator: host ids and pool names hold no space.
    freeByHostAndPool: (device) => (isFree(device) ? `${device.hostId} ${device.pool}` : undefined),
    erasableByHost: (device) => (isErasable(device) ? device.hostId : undefined),
    overriddenByHost: (device) => (isOverridden(device) ? device.hostId : undefined),
    unknownByDisk: (device) => device.unknownSession?.diskId || undefined,
    unknownByHost: (device) => (device.unknownSession === undefined ? undefined : device.hostId),
    awaitingOrderByHost: (device) => (awaitsOrder(device) ? device.hostId : undefined),
  },
});

const disks = table<Disk>()({
  key: (disk) => disk.diskId,
  indexes: {
    byPublicationHost: (disk) => disk.publication?.hostId,
    byPublicationState: (disk) => disk.publication?.state,
  },
});

const counters = table<Counter>()({
  key: (counter) => counter.name,
  indexes: {},
  onRestore: (counter, step) => withGap(counter, { above: counter.value, upTo: counter.value + step }),
});

/** Above it, the oldest are forgotten: an agent's word adds one an hour at most. */
const MAX_GAPS = 64;

/** The counter, gone on to the end of the gap. */
export function withGap(counter: Counter, gap: Gap): Counter {
  return { ...counter, value: gap.upTo, gaps: [...(counter.gaps ?? []), gap].slice(-MAX_GAPS) };
}

// No id holds a space.
export const fleetKey = ({ tabletId, incarnation }: Pick<OtherFleet, "tabletId" | "incarnation">): string =>
  `${tabletId} ${incarnation}`;

const fleets = table<OtherFleet>()({ key: fleetKey, indexes: {} });

const GENERATION_DIGITS = 16;

const starts = table<Start>()({
  // In order.
  key: ({ tabletGeneration }) => `${tabletGeneration}`.padStart(GENERATION_DIGITS, "0"),
  indexes: {},
});

const events = table<RegistryEvent>()({
  key: ({ eventId }) => eventKey(eventId),
  indexes: { byKind: ({ routine }): EventKind => (routine ? "routine" : "other") },
});

const vigils = table<Vigil>()({ key: ({ name }) => name, indexes: {} });

export const schema = { hosts, devices, disks, counters, fleets, starts, events, vigils };
export type RegistrySchema = typeof schema;
export type RegistryTables = Tables<RegistrySchema>;
export type RegistryTransaction = Transaction<RegistrySchema>;

/** Free devices of a host in a pool, and how many there are. */
export const freeKey = (hostId: HostId, pool: string): string => `${hostId} ${pool}`;
