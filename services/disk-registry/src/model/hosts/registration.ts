import {
  AbortedError,
  type DeviceId,
  type HostId,
  InvalidStateError,
  ResourceExhaustedError,
  type Stamp,
} from "@diskmesh/domain";
import { named } from "../devices/action-result.js";
import { nextDeviceGeneration } from "../devices/counters.js";
import { devicesOfHost } from "../devices/device-selection.js";
import { inSlices, requireSlices, type SliceSizes } from "../devices/division.js";
import { endedSessions } from "../devices/ended-sessions.js";
import { noteForeign } from "../devices/foreign-devices.js";
import { type Leader, stampOf } from "../devices/orders.js";
import { type LostSessions, lostSessions } from "../devices/remembered-runs.js";
import {
  foreignDevice,
  mergeLost,
  mergeRefused,
  mergeReported,
  newDevice,
  type ReportedDevice,
} from "../devices/reported-devices.js";
import {
  type FindSharers,
  NO_SHARED_SERIAL_NUMBERS,
  type SharedSerialNumbers,
  whyRefused,
} from "../devices/same-bytes.js";
import { SortedSharers } from "../devices/sorted-sharers.js";
import { markUnknown, sessionsRemembered } from "../devices/unknown-disks.js";
import { fenceAnew, restartPublication, takeAway } from "../disks/publications.js";
import type { Remembered } from "../disks/remembered.js";
import { identityOf } from "../identity/hardware.js";
import { labelsOfHost, withoutUsersText } from "../identity/labels.js";
import type { DeviceIdentity } from "../store/device-identity.js";
import { copyAtSlice, countingDevices, sessionOf } from "../store/layout.js";
import { disksOn } from "../store/runs.js";
import {
  type Device,
  type Disk,
  type ForeignDevice,
  type Host,
  isChangePending,
  isLeftAlone,
  type Publication,
  type RegistryTables,
  type RegistryTransaction,
} from "../store/schema.js";
import { backFromUnavailable, withAgentWarning } from "./heartbeats.js";
import { type ReportedExport, unwantedExports } from "./reported-exports.js";

/** A device that cannot be registered. */
export interface RefusedDevice {
  readonly deviceId: DeviceId;
  readonly reason: string;
}

/** Contents of a registration. The caller has already judged the remembered numbers. */
export interface Registration {
  readonly hostId: HostId;
  readonly address: string;
  readonly az: string;
  readonly rack: string;
  readonly bootId: string;
  readonly devices: readonly ReportedDevice[];
  /** Devices with a malformed report. Absent: none. */
  readonly refusedDevices?: readonly RefusedDevice[] | undefined;
  readonly exports: readonly ReportedExport[];
  readonly remembered: Remembered;
  /** Increases with each registration of one agent start. 0 or absent: the order of registrations is unknown. */
  readonly registrationNumber?: number | undefined;
  /** Reason why nothing new may be placed on the host; empty or absent for none. */
  readonly warning?: string | undefined;
  /** The agent holds sessions of ranges of slices. */
  readonly slices?: boolean | undefined;
}

export interface StampedDevice {
  readonly deviceId: DeviceId;
  readonly stamp: Stamp;
  /** Reason why the device must be detached; empty for a device to attach. */
  readonly reason: string;
  /** Recorded identity of a device to attach. The agent must not open other hardware in its place. */
  readonly expected?: DeviceIdentity | undefined;
  /** Set for a device to attach, unless 0: its agent ends all sessions up to this number. */
  readonly endedSessionNumber?: number | undefined;
  /** Label that a device to attach is known to carry; absent for none. */
  readonly labelId?: string | undefined;
  /** Set for a device to attach whose agent has lost all its sessions. */
  readonly lost?: LostSessions | undefined;
}

export interface RegistrationAnswer {
  /** Devices to attach. */
  readonly allowed: readonly StampedDevice[];
  /** Devices to detach. */
  readonly unknown: readonly StampedDevice[];
  /** Exports of known disks that this host should not serve; the agent must end them. */
  readonly strayExports: readonly ReportedExport[];
  /** Exports of disks that this registry never created. They stay until an operator decides on their devices. */
  readonly unknownExports: readonly ReportedExport[];
}

/** A device of the host after the registration, and its agent's report. */
interface TakenIn {
  readonly device: Device;
  readonly reported: ReportedDevice;
  /** True when the previous registration lacked the device. */
  readonly wasMissing: boolean;
}

/** Maximum former starts remembered per host. A single one suffices to detect two agents that run at once. */
const MAX_FORMER_BOOTS = 4;

export interface HostLimits {
  readonly maxHosts: number;
  /** Time in ms that a returned host must be heard before it is ONLINE; 0 or absent for none. */
  readonly probationMs?: number | undefined;
  readonly sharedSerialNumbers?: SharedSerialNumbers | undefined;
  readonly sliceSizes?: SliceSizes | undefined;
}

/**
 * Applies the report of an agent of this tablet. Returns the devices that the agent must attach and detach, and its
 * unwanted exports.
 */
export function registerAgent(
  tx: RegistryTransaction,
  registration: Registration,
  leader: Leader,
  limits: HostLimits,
  nowMs: number,
): RegistrationAnswer {
  const before = tx.hosts.get(registration.hostId);
  if (before !== undefined) requireSameAz(tx, before, registration);
  if (!registration.slices) requireSlices(tx, registration.hostId);
  putHost(tx, registration, before, limits, nowMs);
  const newStart = before?.bootId !== registration.bootId;
  const sharers = new SortedSharers(tx, limits.sharedSerialNumbers ?? NO_SHARED_SERIAL_NUMBERS);
  const reports = registration.devices.map((each) => withoutUsersText(tx.devices.get(each.deviceId), each));
  const labels = labelsOfHost(leader.tabletId, reports);
  const allowed: StampedDevice[] = [];
  const unknown: StampedDevice[] = [];
  const own: TakenIn[] = [];
  const foreign: ForeignDevice[] = [];
  for (const reported of reports) {
    const known = tx.devices.get(reported.deviceId);
    if (known !== undefined && known.hostId !== registration.hostId) {
      const { generation, reason } = foreignDevice(tx, known);
      foreign.push({ deviceId: known.deviceId, hostId: known.hostId });
      unknown.push({ deviceId: known.deviceId, stamp: { ...leader, deviceGeneration: generation }, reason });
      continue;
    }
    const merged =
      known === undefined
        ? newDevice(tx, registration.hostId, reported, labels, nowMs)
        : mergeReported(tx, known, reported, newStart, { findSharers: sharers.find, labels }, nowMs);
    const device = inSlices(tx, markUnknown(tx, merged, reported), registration.slices === true, limits.sliceSizes);
    sharers.note(device);
    own.push({ device, reported, wasMissing: known?.missing === true });
    if (isLeftAlone(device)) continue;
    const reason = whyNotAllowed(device, sharers.find);
    const stamped = { deviceId: device.deviceId, stamp: stampOf(device, leader), reason };
    if (reason === "")
      allowed.push({
        ...stamped,
        expected: identityOf(device),
        endedSessionNumber: endedSessions(device),
        labelId: device.label?.labelId,
        lost: registration.slices && reported.sessionNumber === 0 ? lostSessions(tx, device) : undefined,
      });
    else unknown.push(stamped);
  }
  for (const { deviceId, reason } of registration.refusedDevices ?? []) {
    // Does not detach a known device: it stays in operation, with health ERROR.
    if (tx.devices.has(deviceId)) continue;
    unknown.push({ deviceId, stamp: { ...leader, deviceGeneration: nextDeviceGeneration(tx) }, reason });
  }
  noteForeign(tx, registration.hostId, foreign);
  mergeAllLost(tx, registration, own, nowMs);
  restartBrokenPublications(tx, registration, before, own, nowMs);
  const unwanted = unwantedExports(tx, registration);
  noteUnwanted(tx, registration.hostId, unwanted.strayExports.length > 0);
  return { allowed, unknown, ...unwanted };
}

/** Throws when the az changed, because disks were placed on the host according to its az. */
function requireSameAz(tables: RegistryTables, { hostId, az }: Host, registration: Registration): void {
  if (az === registration.az) return;
  const disks = disksOn([...tables.devices.by("usedByHost", hostId)]);
  if (disks.length === 0) return;
  throw new InvalidStateError(
    `host ${hostId} is in az ${az}, not in ${registration.az}, while disks are on its devices (${named(disks)}): set its agent's az back, or delete the disks`,
    { about: { host_id: hostId } },
  );
}

function putHost(
  tx: RegistryTransaction,
  registration: Registration,
  before: Host | undefined,
  limits: HostLimits,
  nowMs: number,
): void {
  const { hostId, address, az, rack, bootId, warning = "" } = registration;
  if (before === undefined && tx.hosts.size >= limits.maxHosts) {
    throw new ResourceExhaustedError(
      `host ${hostId} exceeds the limit of ${limits.maxHosts} hosts of a registry: purge dead hosts`,
      { about: { host_id: hostId } },
    );
  }
  const reported = { address, az, rack, bootId, slices: registration.slices ? (true as const) : undefined };
  if (before === undefined) {
    const state = { state: "ONLINE", stateMessage: "", stateChangedAtMs: nowMs } as const;
    const host: Host = { hostId, ...reported, ...state, removalRequested: false, createdAtMs: nowMs };
    tx.hosts.put(withAgentWarning(host, warning, nowMs));
    return;
  }
  const back = before.state === "UNAVAILABLE" ? backFromUnavailable(before, limits.probationMs ?? 0, nowMs) : before;
  const heard = withAgentWarning(back, warning, nowMs);
  const { mustRegister, ...registered } = heard;
  const unchanged =
    heard === before &&
    mustRegister === undefined &&
    before.address === address &&
    before.az === az &&
    before.rack === rack &&
    before.slices === reported.slices &&
    before.bootId === bootId;
  if (!unchanged) tx.hosts.put({ ...registered, ...reported, ...formerBoots(before, bootId) });
}

function noteUnwanted(tx: RegistryTransaction, hostId: HostId, isUnwanted: boolean): void {
  const host = tx.hosts.get(hostId);
  if (host === undefined || (host.servesUnwanted ?? false) === isUnwanted) return;
  const { servesUnwanted: _, ...rest } = host;
  tx.hosts.put(isUnwanted ? { ...rest, servesUnwanted: true } : rest);
}

function formerBoots(before: Host, bootId: string): Pick<Host, "formerBootIds"> {
  if (before.bootId === bootId) return {};
  const known = (before.formerBootIds ?? []).filter((former) => former !== bootId);
  return { formerBootIds: [...known, before.bootId].slice(-MAX_FORMER_BOOTS) };
}

/**
 * Refuses a registration of a former agent start while its successor is heard. Otherwise two agents would run under one
 * host id, and each would get orders for the host's devices. A successor that never sent a heartbeat may have ended
 * before its registration was answered, or its registration may be a delayed message of an ended agent.
 */
export function requireNotReplaced(
  tables: RegistryTables,
  registration: Registration,
  isInPlace: (host: Host) => boolean,
): void {
  const { hostId, bootId, address } = registration;
  const host = tables.hosts.get(hostId);
  if (host === undefined || host.bootId === bootId || !host.formerBootIds?.includes(bootId) || !isInPlace(host)) return;
  throw new InvalidStateError(
    `two agents run as host ${hostId}: start ${bootId} at ${address} was replaced by start ${host.bootId} at ` +
      `${host.address}, which sends heartbeats: stop one of the two agents, or give it a host id and a certificate of its own`,
    { about: { host_id: hostId } },
  );
}

/**
 * Last accepted registration by host. Kept in memory only, because messages are not delayed longer than a leader
 * serves.
 */
export type LastRegistrations = Map<HostId, { readonly bootId: string; readonly number: number }>;

/** Refuses a registration that arrives after a later one of the same start. */
export function requireInOrder(last: Readonly<LastRegistrations>, registration: Registration): void {
  const { hostId, bootId, registrationNumber: number = 0 } = registration;
  const before = last.get(hostId);
  if (number > 0 && before?.bootId === bootId && number < before.number)
    throw new AbortedError(
      `registration ${number} of host ${hostId} arrived after registration ${before.number} and is outdated`,
      { about: { host_id: hostId } },
    );
}

export function noteRegistration(last: LastRegistrations, registration: Registration): void {
  const { hostId, bootId, registrationNumber: number = 0 } = registration;
  last.set(hostId, { bootId, number });
}

/** Updates the host's devices that the registration lacked. */
function mergeAllLost(
  tx: RegistryTransaction,
  { hostId, refusedDevices = [] }: Registration,
  own: readonly TakenIn[],
  nowMs: number,
): void {
  // Comparing the counts avoids a search that costs as much as applying the report; nearly always no device is missing.
  if (tx.devices.count("byHost", hostId) === own.length) return;
  const reportedIds = new Set<string>(own.map(({ device }) => device.deviceId));
  const reasons = new Map<string, string>(refusedDevices.map(({ deviceId, reason }) => [deviceId, reason]));
  for (const device of devicesOfHost(tx, hostId)) {
    if (reportedIds.has(device.deviceId)) continue;
    const reason = reasons.get(device.deviceId);
    if (reason === undefined) mergeLost(tx, device, nowMs);
    else mergeRefused(tx, device, reason, nowMs);
  }
}

function whyNotAllowed(device: Device, findSharers: FindSharers): string {
  const isAllowed = device.attachState === "ATTACHING" || device.attachState === "ATTACHED";
  const refused = isAllowed ? undefined : whyRefused(findSharers, device);
  if (refused !== undefined) return refused;
  switch (device.attachState) {
    case "ATTACHING":
    case "ATTACHED":
      return "";
    case "UNKNOWN":
      return "it has not been added: AddHost or AddDevice adds it";
    case "CLOSING":
      return "it is being taken out of operation";
    case "DETACHED":
      return "it was taken out of operation";
  }
}

/**
 * Takes all publications from a host that was DEAD. Otherwise gives a published disk a new session and export when the
 * agent's restart interrupted the export, when the loss of its cache ended a device's session, or when the agent's address
 * changed.
 */
function restartBrokenPublications(
  tx: RegistryTransaction,
  registration: Registration,
  before: Host | undefined,
  own: readonly TakenIn[],
  nowMs: number,
): void {
  const { hostId, exports } = registration;
  const deadReason = "the host registered while it was DEAD";
  const served = new Map(exports.map((entry) => [entry.diskId, entry]));
  const newBoot = before?.bootId !== registration.bootId;
  for (const disk of [...tx.disks.by("byPublicationHost", hostId)]) {
    const { publication } = disk;
    if (before?.state === "DEAD") takeAway(tx, disk, { hostId, by: "disk-registry", atMs: nowMs, reason: deadReason });
    else if (publication?.state === "PUBLISHED") {
      const found = served.get(disk.diskId);
      const goesOn = found?.sessionNumber === publication.sessionNumber && (found.wentOn || !newBoot);
      if (!goesOn) restartPublication(tx, disk, publication);
    }
  }
  const moved = before?.address !== registration.address;
  for (const { device, reported, wasMissing } of own)
    for (const diskId of disksOn([device])) {
      const disk = tx.disks.get(diskId);
      // The fences of a disk ask only the devices that have its bytes. The agents at a copy notice a lost session.
      if (disk === undefined || !countingDevices(disk).includes(device.deviceId)) continue;
      const { publication, lastSessionNumber = 0 } = disk;
      const remembered = sessionsRemembered(device, diskId, reported);
      const isBehind = remembered.some(({ sessionNumber }) => sessionNumber < lastSessionNumber);
      if (publication === undefined && wasMissing && isBehind) fenceAnew(tx, disk, hostId);
      if (publication?.state !== "PUBLISHED") continue;
      const hasAll = remembered.every((run) => hasSession(disk, publication, device, run));
      if (moved || !hasAll) restartPublication(tx, disk, publication);
    }
}

/** Returns whether the run grants the publication's session. A run that is being added to the disk may not yet. */
function hasSession(
  disk: Disk,
  publication: Publication,
  device: Device,
  { first, sessionNumber }: { readonly first: number; readonly sessionNumber: number },
): boolean {
  if (device.unknownSession !== undefined) return false;
  const wanted = sessionOf(disk, copyAtSlice(disk, device.deviceId, first));
  const isBeingAdded = wanted !== publication.sessionNumber && isChangePending(publication);
  return sessionNumber === wanted || (isBeingAdded && sessionNumber < wanted);
}
