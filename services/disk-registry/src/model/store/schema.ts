import type { DeviceId, DiskId, HostId, IoLimits } from "@diskmesh/domain";
import type { Table, Tables, Transaction } from "@diskmesh/tablet";
import { type Counter, withGap } from "./counter.js";
import { DELETED, type Deletion, withoutDeletion } from "./deletion.js";
import type { DeviceIdentity } from "./device-identity.js";
import type { InPlace, Labelled } from "./device-label.js";
import { moveStateOf, type Part } from "./disk-parts.js";
import { freeSpaceRows } from "./free-space.js";
import { type HostCertificate, joinedHosts, joinTokens } from "./join-token.js";
import { labelDue } from "./label-due.js";
import type { OtherFleet } from "./other-fleet.js";
import { type EventKind, eventKey, type RegistryEvent } from "./registry-event.js";
import { holdsAnyDisk, isDirty, type Runs, type UnknownSession } from "./runs.js";
import { hasRoom, isCrowded, type Sliced, spacesOf } from "./slices.js";
import type { Vigil } from "./vigil.js";

/**
 * State of a host's agent. Nothing new is placed on a host that is not ONLINE. DEAD is set and cleared by operators
 * only; heartbeats do not change it.
 */
type HostState = "ONLINE" | "WARNING" | "UNAVAILABLE" | "DEAD";

/** An operator's override and its reason. */
export interface OperatorsWord {
  readonly by: string;
  readonly atMs: number;
  readonly reason: string;
}

/** Work on a host that an operator announced, so that its silence means nothing. */
export interface Maintenance extends OperatorsWord {
  readonly untilMs: number;
}

/**
 * Health of a device's hardware, as agents and operators report it. Whether the device may be used depends on its
 * attach state.
 */
export type Health = "ONLINE" | "WARNING" | "ERROR";

/** Assigns the host to a VM of the fleet CPI. */
export interface VmAssignment {
  readonly vmCid: string;
  readonly assignedAtMs: number;
}

/** One disk agent. The time of its last heartbeat is kept in memory only. */
export interface Host {
  readonly hostId: HostId;
  readonly address: string;
  readonly az: string;
  readonly rack: string;
  readonly state: HostState;
  readonly stateMessage: string;
  /** Time of the last change of `state`. */
  readonly stateChangedAtMs: number;
  readonly bootId: string;
  /** Boot ids of replaced starts, the latest last; absent when none is known. */
  readonly formerBootIds?: readonly string[] | undefined;
  /** Set with WARNING after UNAVAILABLE: the time at which the probation ends and the host is ONLINE. */
  readonly probationEndsAtMs?: number | undefined;
  /** Set with DEAD. */
  readonly saidDead?: OperatorsWord | undefined;
  /** Set while an operator keeps new disks and VMs off the host. */
  readonly cordoned?: OperatorsWord | undefined;
  /** Present from the operator's announcement until the host monitor ends it. */
  readonly maintenance?: Maintenance | undefined;
  readonly removalRequested: boolean;
  /**
   * The registry's record of the host may be outdated: a device was purged or a disk fenced off while its agent was
   * away, the host is DEAD, or the tablet was restored or copied back. Until the agent has registered again, its
   * heartbeats do not count and it gets no order.
   */
  readonly mustRegister?: true | undefined;
  /**
   * The host served unwanted disks at its last registration. The exports to end are kept in memory only, so the next
   * leader has the agent register again.
   */
  readonly servesUnwanted?: true | undefined;
  readonly assignment?: VmAssignment | undefined;
  /** Set when its agent, as it last registered, holds sessions of ranges of slices. */
  readonly slices?: true | undefined;
  /** Reason, reported by the agent, why nothing new may be placed on the host; absent for none. */
  readonly agentWarning?: string | undefined;
  /**
   * Set with UNAVAILABLE: value of `Vigil.listenedMs` from which the removal timeout runs. Absent: the timeout has not
   * started.
   */
  readonly silentAtListenedMs?: number | undefined;
  /** Set once an event has named the disks that the host's removal has lost. */
  readonly lossNoted?: true | undefined;
  /** Written by 0.1.0; no longer read. */
  readonly removalCountsFromMs?: number | undefined;
  /** Devices that its agent last reported under ids of other hosts' devices; limited in number. */
  readonly foreignDevices?: readonly ForeignDevice[] | undefined;
  /** Certificates that this registry signed for the host and that may be valid; absent for none. */
  readonly certificates?: readonly HostCertificate[] | undefined;
  /** Time of the last renewal of its certificate; absent for none. */
  readonly renewedAtMs?: number | undefined;
  readonly createdAtMs: number;
}

/** Id of a device, and the host that owns that id. */
export interface ForeignDevice {
  readonly deviceId: DeviceId;
  readonly hostId: HostId;
}

/**
 * Progress of a device towards being usable (seed 004), as far as its agent has confirmed it:
 * UNKNOWN    the agent reported the device, and nobody added it; the agent must not hold it open
 * ATTACHING  the agent must open the device, and has not confirmed the current generation
 * ATTACHED   the agent confirmed that it holds the device open
 * CLOSING    the agent must close the device, and has not confirmed
 * DETACHED   the agent confirmed the close, or the registry stopped waiting for it (`detachConfirmed` is false)
 */
export type AttachState = "UNKNOWN" | "ATTACHING" | "ATTACHED" | "CLOSING" | "DETACHED";

/** Cause of an agent's wait before it completes an order, as it last reported. */
export interface Pending {
  readonly message: string;
  /** Start of the oldest pending operation. */
  readonly sinceMs: number;
  /** Number of I/O operations that the host's operating system has not completed. */
  readonly inFlightOperations: number;
}

/** Pending state of one of several devices. */
export interface PendingDevice extends Pending {
  readonly deviceId: DeviceId;
}

/** Hardware errors and operator overrides that stay until an operator clears them, and the agent's own report. */
export interface KeptHealth {
  readonly hardwareError?: { readonly message: string; readonly atMs: number } | undefined;
  readonly said?: (OperatorsWord & { readonly health: Exclude<Health, "ONLINE"> }) | undefined;
  readonly reported: { readonly health: Health; readonly healthMessage: string };
}

export interface Device extends DeviceIdentity, Sliced, Runs, Labelled, InPlace {
  readonly deviceId: DeviceId;
  readonly hostId: HostId;
  readonly pool: string;
  /** Worst of the agent's report, hardware errors and overrides. */
  readonly health: Health;
  readonly healthMessage: string;
  readonly keptHealth?: KeptHealth | undefined;
  /** Time at which an operator last set ONLINE. Earlier hardware errors are ignored. */
  readonly saidWellAtMs?: number | undefined;
  /**
   * Time since which the agent reports a health other than ONLINE; absent for ONLINE, and in documents that lack the
   * time.
   */
  readonly unwellSinceMs?: number | undefined;
  readonly attachState: AttachState;
  /** Fencing generation of the last order. */
  readonly generation: number;
  /** Failed or unanswered tries of the current order. */
  readonly attempts: number;
  readonly lastError: string;
  /** Why the current order is still in progress; absent when it has failed or ended. */
  readonly pending?: Pending | undefined;
  readonly removalRequested: boolean;
  /** Absent when the time was not recorded. */
  readonly removalRequestedAtMs?: number | undefined;
  /** True when the device leaves without an erase. */
  readonly keepData?: true | undefined;
  /**
   * Set when RemoveDevice named the device, alone or by its path, with which it then leaves. Absent: the device leaves
   * with its host, if that is to be removed.
   */
  readonly leavesAs?: "DEVICE" | "PATH" | undefined;
  /**
   * True when the agent has confirmed the detach of the current generation. While false, a device that is not to be
   * held is ordered detached.
   */
  readonly detachConfirmed: boolean;
  /**
   * Highest session issued for an erase on the device, or for a disk that has left it; absent when not recorded.
   * Sessions of a disk that is on the device are recorded in that disk's document.
   */
  readonly lastSessionNumber?: number | undefined;
  /**
   * Session that the agent remembers for another disk or for an erase. The device is not used until an operator
   * decides.
   */
  readonly unknownSession?: UnknownSession | undefined;
  readonly stateChangedAtMs: number;
}

/**
 * State of a publication; an unpublished disk has none.
 * PUBLISHING    some devices may not have granted the session yet, and the host may not serve the disk yet
 * PUBLISHED     every device has granted the session, and the host serves the disk
 * UNPUBLISHING  some devices may not have granted the new session, which has no holder; until then older sessions can write
 */
type PublicationState = "PUBLISHING" | "PUBLISHED" | "UNPUBLISHING";

export interface Publication {
  readonly hostId: HostId;
  readonly state: PublicationState;
  readonly sessionNumber: number;
  readonly exportPath: string;
  readonly attempts: number;
  readonly lastError: string;
  /** FENCE takes the disk from its host automatically when the host is UNAVAILABLE. Absent: only an operator does. */
  readonly onHostSilence?: "FENCE" | undefined;
  /** Devices whose grant of the session is pending; absent when none was at the last try. */
  readonly pending?: readonly PendingDevice[] | undefined;
  /** True while no device has been asked for this session or an earlier one, so that it can end without a fence. */
  readonly unasked?: true | undefined;
  /** True when the host refuses writes. */
  readonly readOnly?: true | undefined;
  /** VM that the request named; empty when it named the host. Absent in publications of 0.1.0; see `vmOfPublication`. */
  readonly vmCid?: string | undefined;
  /** True when the host cannot enlarge the disk until the publication has ended. */
  readonly fixedSize?: true | undefined;
  /** Number of changes of the disk's limits and layout within this session; absent for 0. */
  readonly revision?: number | undefined;
  /** Last revision that the host has confirmed; absent for 0. */
  readonly confirmedRevision?: number | undefined;
  /** Reason why users of the host cannot use the disk, as its agent reports; absent while they can. */
  readonly problem?: PublicationProblem | undefined;
}

export interface PublicationProblem {
  readonly message: string;
  readonly sinceMs: number;
}

/** Record of taking a disk from a host without the host's cooperation. */
export interface Fence {
  readonly hostId: HostId;
  /** An operator's identity, or "disk-registry". */
  readonly by: string;
  readonly atMs: number;
  readonly reason: string;
}

/**
 * A name and a value. Labels are stored as a list, not as an object, because names chosen by users must not become
 * field names in a store.
 */
export interface Label {
  readonly name: string;
  readonly value: string;
}

/** Parameters of CreateDisk. A repeated call with equal parameters returns the disk; different parameters conflict. */
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
  readonly parts: readonly Part[];
  readonly publication?: Publication | undefined;
  /** Fence that ended or is ending the last publication. The next publication clears it. */
  readonly fence?: Fence | undefined;
  /** Highest session issued for the disk; absent when none was, or that was not recorded. */
  readonly lastSessionNumber?: number | undefined;
  readonly labels: readonly Label[];
  readonly createdAtMs: number;
  /** Absent when nothing is limited. */
  readonly limits?: IoLimits | undefined;
  /** Form in which a host offers the disk; absent when the host's agent chooses. */
  readonly exportKind?: "DEVICE" | "NBD" | undefined;
  /** Rule of publications that name none; absent for KEEP. */
  readonly onHostSilence?: "FENCE" | undefined;
  /** Set while the disk is deleted and kept. */
  readonly deleted?: Deletion | undefined;
}

/** Numbers that had been issued when a leader began; `tabletGeneration` is that leader's. */
export interface Start {
  readonly tabletGeneration: number;
  readonly deviceGeneration: number;
  readonly sessionNumber: number;
}

/** Returns whether the host is UNAVAILABLE or DEAD. */
export function isAway({ state }: Pick<Host, "state">): boolean {
  return state === "UNAVAILABLE" || state === "DEAD";
}

/** Returns whether a new disk or VM may be placed on the host, as far as the host's own fields say. */
export function isSound(host: Host): boolean {
  return host.state === "ONLINE" && !host.mustRegister && !host.removalRequested && !isClosed(host);
}

/** Returns whether an operator keeps new disks and VMs off the host. */
export function isClosed({ cordoned, maintenance }: Pick<Host, "cordoned" | "maintenance">): boolean {
  return cordoned !== undefined || maintenance !== undefined;
}

/** Returns whether a disk may be placed on the device, as far as the device's own fields say. */
export function isFree(device: Device): boolean {
  const isWell = device.health === "ONLINE" && device.unknownSession === undefined && !device.removalRequested;
  return device.attachState === "ATTACHED" && isWell && spacesOf(device).length > 0;
}

/** Returns whether the device must be erased now, before it is used again or taken out of operation. */
export function isErasable(device: Device): boolean {
  const isUp = device.attachState === "ATTACHED" && device.health !== "ERROR" && device.unknownSession === undefined;
  return isUp && isDirty(device) && !device.keepData;
}

/** Returns whether a disk may be placed on the device once it is attached and erased. */
export function isComing(device: Device): boolean {
  const isWell = device.health === "ONLINE" && !device.removalRequested;
  return isWell && hasRoom(device) && (device.attachState === "ATTACHING" || isErasable(device));
}

/** Returns whether the device holds a disk and has turned WARNING by its own health, not by an operator's word. */
export function isFailing(device: Device): boolean {
  return device.health === "WARNING" && holdsAnyDisk(device) && device.keptHealth?.said === undefined;
}

/** Returns whether the disk's host has not confirmed the disk's present limits or devices. */
export function isChangePending(publication: Publication | undefined): boolean {
  return publication !== undefined && (publication.revision ?? 0) > (publication.confirmedRevision ?? 0);
}

/** Returns whether the agent holds the device open, or is to open it. */
export function isHeld({ attachState }: Device): boolean {
  return attachState === "ATTACHING" || attachState === "ATTACHED";
}

/** Returns whether nothing is placed on the free device because an operator must decide, or has overridden its health. */
export function isOverridden(device: Device): boolean {
  const isHeldBack = device.unknownSession !== undefined || device.keptHealth?.said !== undefined;
  return device.attachState === "ATTACHED" && hasRoom(device) && isHeldBack;
}

/** Returns whether the agent must be sent the device's current generation, because it has not confirmed it. */
export function awaitsOrder(device: Device): boolean {
  if (isLeftAlone(device)) return false;
  return device.attachState === "ATTACHING" || (device.attachState !== "ATTACHED" && !device.detachConfirmed);
}

/** Returns whether the device gets no orders: an unknown disk may be in use there, and an operator decides. */
export function isLeftAlone(device: Device): boolean {
  return device.unknownSession !== undefined && device.attachState !== "ATTACHING" && !device.keepData;
}

/** Index key of hosts that lack devices, because the devices' ids belong to other hosts. */
export const LACKS_DEVICES = "devices";

// Types a plain object as a table with its index names. The model imports only types of @diskmesh/tablet.
const table =
  <Doc>() =>
  <Index extends string, Row = never>(definition: Table<Doc, Index, Row>): Table<Doc, Index, Row> =>
    definition;

const hosts = table<Host>()({
  key: (host) => host.hostId,
  indexes: {
    byAz: (host) => host.az,
    awaitedByAz: (host) => (host.state === "UNAVAILABLE" || host.mustRegister ? host.az : undefined),
    byVm: (host) => host.assignment?.vmCid,
    byLack: (host) => (host.foreignDevices === undefined ? undefined : LACKS_DEVICES),
  },
  rows: {
    table: "devices",
    index: "freeByHost",
    rowsOf: (host, free: Iterable<Device>) =>
      isSound(host) ? freeSpaceRows(host, Array.from(free).flatMap(spacesOf)) : [],
  },
  queries: [["state", "stateChangedAtMs"]],
  // Changes after the backup are lost here, but the agents still remember them, so each one must register.
  onRestore: (host) => ({ ...host, mustRegister: true }),
});

const devices = table<Device>()({
  key: (device) => device.deviceId,
  queries: [["hostId", "attachState"], ["attempts"]],
  indexes: {
    byHost: (device) => device.hostId,
    byFileIdentity: (device) => device.fileIdentity || undefined,
    bySerialNumber: (device) => device.serialNumber || undefined,
    byLabel: (device) => device.label?.labelId,
    byFoundLabel: (device) => device.foundLabel?.labelId,
    usedByHost: (device) => (holdsAnyDisk(device) ? device.hostId : undefined),
    freeByHost: (device) => (isFree(device) ? device.hostId : undefined),
    erasableByHost: (device) => (isErasable(device) ? device.hostId : undefined),
    comingByPool: (device) => (isComing(device) ? device.pool : undefined),
    overriddenByPool: (device) => (isOverridden(device) ? device.pool : undefined),
    unknownByDisk: (device) => device.unknownSession?.diskId || undefined,
    crowdedByPool: (device) => (isCrowded(device) ? device.pool : undefined),
    failingByPool: (device) => (isFailing(device) ? device.pool : undefined),
    unknownByHost: (device) => (device.unknownSession === undefined ? undefined : device.hostId),
    labelDueByHost: (device) => (labelDue(device) === undefined ? undefined : device.hostId),
    leavingByHost: (device) => (device.removalRequested && isHeld(device) ? device.hostId : undefined),
    awaitingOrderByHost: (device) => (awaitsOrder(device) ? device.hostId : undefined),
  },
});

const disks = table<Disk>()({
  key: (disk) => disk.diskId,
  indexes: {
    byPublicationHost: (disk) => disk.publication?.hostId,
    byPublicationState: (disk) => disk.publication?.state,
    byProblemHost: ({ publication }) => (publication?.problem === undefined ? undefined : publication.hostId),
    byPendingChange: ({ publication }) => (isChangePending(publication) ? publication?.state : undefined),
    byMove: ({ parts }) => moveStateOf(parts),
    byDeletion: ({ deleted }) => (deleted === undefined ? undefined : DELETED),
  },
  onRestore: withoutDeletion,
});

const counters = table<Counter>()({
  key: (counter) => counter.name,
  indexes: {},
  onRestore: (counter, step) => withGap(counter, { above: counter.value, upTo: counter.value + step }),
});

// A space separates the parts, because ids contain none.
export const fleetKey = ({ tabletId, incarnation }: Pick<OtherFleet, "tabletId" | "incarnation">): string =>
  `${tabletId} ${incarnation}`;

const fleets = table<OtherFleet>()({ key: fleetKey, indexes: {} });

// Zero-padded, so that keys sort by generation.
const starts = table<Start>()({ key: ({ tabletGeneration }) => `${tabletGeneration}`.padStart(16, "0"), indexes: {} });

const events = table<RegistryEvent>()({
  key: ({ eventId }) => eventKey(eventId),
  indexes: { byKind: ({ routine }): EventKind => (routine ? "routine" : "other") },
});

const vigils = table<Vigil>()({ key: ({ name }) => name, indexes: {} });

export const schema = { hosts, devices, disks, counters, fleets, starts, events, vigils, joinTokens, joinedHosts };
export type RegistrySchema = typeof schema;
export type RegistryTables = Tables<RegistrySchema>;
export type RegistryTransaction = Transaction<RegistrySchema>;
