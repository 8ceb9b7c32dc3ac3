import {
  type DeviceOutcome as DeviceOutcomeMessage,
  OrderOutcome,
  type StampedDevice as StampedDeviceMessage,
  type Stamp as StampMessage,
} from "@diskmesh/api/internal";
import {
  ActionCode,
  type ActionResult as ActionResultMessage,
  AttachState,
  type DeviceIdentity as DeviceIdentityMessage,
  DeviceLabelState,
  type Device as DeviceMessage,
  type DiskIo,
  type Disk as DiskMessage,
  ExportKind,
  type Fence as FenceMessage,
  Health,
  type Host as HostMessage,
  HostState,
  IdentifiedBy,
  type MassSilence as MassSilenceMessage,
  OnHostSilence,
  type OperatorsWord as OperatorsWordMessage,
  type OtherFleet as OtherFleetMessage,
  type Pending as PendingMessage,
  type Publication as PublicationMessage,
  PublicationState,
  type RefusedNumbers as RefusedNumbersMessage,
  type Trouble as TroubleMessage,
} from "@diskmesh/api/registry";
import { type HostId, InvalidArgumentError, identifiedBy } from "@diskmesh/domain";
import { durationOf } from "@diskmesh/rpc";
import type { ActionResult } from "../model/devices/action-result.js";
import type { DeviceOutcome, Leader, OutcomeCode } from "../model/devices/orders.js";
import { diskHealth } from "../model/disks/disks.js";
import type { MoveProgress } from "../model/disks/move-progress.js";
import { vmOfPublication } from "../model/disks/publications.js";
import type { Cause } from "../model/explain/cause.js";
import type { Refused } from "../model/hosts/refused.js";
import type { StampedDevice } from "../model/hosts/registration.js";
import type { ToldMassSilence } from "../model/hosts/vigil.js";
import type { DeviceIdentity } from "../model/store/device-identity.js";
import type { OtherFleet } from "../model/store/other-fleet.js";
import { diskOn, disksOn, eraseSessionOf, isDirty } from "../model/store/runs.js";
import {
  type Device,
  type Disk,
  type Fence,
  type Host,
  isChangePending,
  type Health as ModelHealth,
  type OperatorsWord,
  type Pending,
  type Publication,
  type RegistryTables,
} from "../model/store/schema.js";
import { bytesByUse } from "../model/store/slices.js";
import { labelsEtag } from "./labels-etag.js";
import { partMessage } from "./part-message.js";

/** Translates between protobuf messages and the model; only this file does. */

const dateOf = (ms: number): Date => new Date(ms);
const dateIf = (ms: number | undefined): Date | undefined => (ms === undefined ? undefined : new Date(ms));

/** Facts about a host that are kept in memory only. */
export interface HostTimes {
  readonly lastHeardAtMs: number | undefined;
  readonly removalTimesOutAtMs: number | undefined;
  readonly isSuspected: boolean;
  readonly trouble: Cause | undefined;
}

/** Facts about a device that are kept in memory only. */
export interface DeviceProgress {
  readonly nextAttemptAtMs: number | undefined;
  readonly removalTimesOutAtMs: number | undefined;
  readonly erasedBytes: number;
  /** Cause of an agent's wait in an erase, which is not stored. */
  readonly pending: Pending | undefined;
  readonly trouble: Cause | undefined;
}

export function hostMessage(host: Host, times: HostTimes): HostMessage {
  const { assignment } = host;
  return {
    hostId: host.hostId,
    address: host.address,
    az: host.az,
    rack: host.rack,
    state: HostState[host.state],
    stateMessage: host.stateMessage,
    bootId: host.bootId,
    removalRequested: host.removalRequested,
    lastHeartbeatTime: dateIf(times.lastHeardAtMs),
    assignment:
      assignment === undefined ? undefined : { vmCid: assignment.vmCid, assignTime: dateOf(assignment.assignedAtMs) },
    createTime: dateOf(host.createdAtMs),
    stateChangeTime: dateOf(host.stateChangedAtMs),
    probationEndTime: dateIf(host.probationEndsAtMs),
    removalTimeoutTime: dateIf(times.removalTimesOutAtMs),
    saidDead: host.saidDead && wordMessage(host.saidDead),
    cordoned: host.cordoned && wordMessage(host.cordoned),
    maintenance: host.maintenance && wordMessage(host.maintenance),
    maintenanceEndTime: dateIf(host.maintenance?.untilMs),
    suspected: times.isSuspected,
    foreignDevices: [...(host.foreignDevices ?? [])],
    trouble: troubleMessage(times.trouble),
    certificateSerialNumbers: (host.certificates ?? []).map(({ serialNumber }) => serialNumber),
  };
}

function troubleMessage(cause: Cause | undefined): TroubleMessage | undefined {
  return cause && { code: cause.reason, sentence: cause.message, startTime: dateIf(cause.sinceMs) };
}

function wordMessage({ by, atMs, reason }: OperatorsWord): OperatorsWordMessage {
  return { by, setTime: dateOf(atMs), reason };
}

export function deviceMessage(device: Device, leader: Leader, progress: DeviceProgress): DeviceMessage {
  const { hardwareError, said } = device.keptHealth ?? {};
  return {
    deviceId: device.deviceId,
    hostId: device.hostId,
    path: device.path,
    offsetBytes: device.offsetBytes,
    sizeBytes: device.sizeBytes,
    blockSizeBytes: device.blockSizeBytes,
    serialNumber: device.serialNumber,
    pool: device.pool,
    health: Health[device.health],
    healthMessage: device.healthMessage,
    attachState: AttachState[device.attachState],
    deviceGeneration: device.generation,
    tabletGeneration: leader.tabletGeneration,
    attempts: device.attempts,
    lastError: device.lastError,
    dirty: isDirty(device),
    removalRequested: device.removalRequested,
    removalRequestTime: dateIf(device.removalRequestedAtMs),
    keepData: device.keepData ?? false,
    heldByUnknownDisk: device.unknownSession !== undefined,
    unknownSession: device.unknownSession && { ...device.unknownSession },
    detachConfirmed: device.detachConfirmed,
    diskId: diskOn(device),
    stateChangeTime: dateOf(device.stateChangedAtMs),
    nextAttemptTime: dateIf(progress.nextAttemptAtMs),
    removalTimeoutTime: dateIf(progress.removalTimesOutAtMs),
    eraseSessionNumber: eraseSessionOf(device),
    erasedBytes: progress.erasedBytes,
    fileIdentity: device.fileIdentity ?? "",
    replacement: device.replacement && identityMessage(device.replacement),
    identifiedBy: IdentifiedBy[identifiedBy(device) ?? "UNSPECIFIED"],
    hardwareError: hardwareError && { message: hardwareError.message, reportTime: dateOf(hardwareError.atMs) },
    saidHealth: Health[said?.health ?? "UNSPECIFIED"],
    saidHealthBy: said && wordMessage(said),
    pending: pendingMessage(device.deviceId, device.pending ?? progress.pending),
    trouble: troubleMessage(progress.trouble),
    sliceBytes: device.sliceBytes ?? 0,
    diskCount: disksOn([device]).length,
    freeBytes: bytesByUse(device).free,
    labelState: labelStateMessage(device),
    labelId: device.label?.labelId ?? "",
    foreignLabel: device.foundLabel && { ...device.foundLabel, fleetId: device.foundLabel.fleetId ?? "" },
  };
}

function labelStateMessage({ label, labelState, foundLabel }: Device): DeviceLabelState {
  if (foundLabel !== undefined) return DeviceLabelState.FOREIGN;
  // A label that was written since the last report is the device's own.
  if (label !== undefined) return labelState === "DAMAGED" ? DeviceLabelState.DAMAGED : DeviceLabelState.OWN;
  if (labelState === undefined) return DeviceLabelState.UNSPECIFIED;
  return DeviceLabelState[labelState === "DAMAGED" || labelState === "USERS" ? labelState : "NONE"];
}

function pendingMessage(deviceId: string, pending: Pending | undefined): PendingMessage | undefined {
  if (pending === undefined) return undefined;
  const { message, sinceMs, inFlightOperations } = pending;
  return { deviceId, message, startTime: dateOf(sinceMs), inFlightOperations };
}

function identityMessage(identity: DeviceIdentity): DeviceIdentityMessage {
  return { ...identity, fileIdentity: identity.fileIdentity ?? "" };
}

export function diskMessage(
  tables: RegistryTables,
  disk: Disk,
  now: {
    readonly trouble: Cause | undefined;
    readonly progress?: MoveProgress | undefined;
    readonly io?: DiskIo | undefined;
  },
): DiskMessage {
  const { health, message } = diskHealth(tables, disk);
  return {
    diskId: disk.diskId,
    sizeBytes: disk.sizeBytes,
    requestedSizeBytes: disk.requested.sizeBytes,
    blockSizeBytes: disk.blockSizeBytes,
    az: disk.az,
    pool: disk.requested.pool,
    parts: disk.parts.map((part) => partMessage(tables, disk, part, now.progress)),
    publication: disk.publication === undefined ? undefined : publicationMessage(tables, disk.publication),
    labels: [...disk.labels],
    labelsEtag: labelsEtag(disk.labels),
    health: Health[health],
    healthMessage: message,
    createTime: dateOf(disk.createdAtMs),
    fence: disk.fence && fenceMessage(disk.fence),
    trouble: troubleMessage(now.trouble),
    io: now.io,
    limits: disk.limits && { ...disk.limits },
    exportKind: ExportKind[disk.exportKind ?? "UNSPECIFIED"],
    onHostSilence: OnHostSilence[disk.onHostSilence ?? "KEEP"],
    deleteTime: dateIf(disk.deleted?.atMs),
    purgeTime: dateIf(disk.deleted?.untilMs),
  };
}

function publicationMessage(tables: RegistryTables, publication: Publication): PublicationMessage {
  const { hostId, state, sessionNumber, exportPath, attempts, lastError, onHostSilence, readOnly, pending } =
    publication;
  return {
    hostId,
    sessionNumber,
    exportPath,
    attempts,
    lastError,
    state: PublicationState[state],
    onHostSilence: OnHostSilence[onHostSilence ?? "KEEP"],
    pending: (pending ?? []).flatMap((each) => pendingMessage(each.deviceId, each) ?? []),
    readOnly: readOnly ?? false,
    changePending: isChangePending(publication),
    vmCid: vmOfPublication(tables, publication),
  };
}

function fenceMessage({ hostId, by, atMs, reason }: Fence): FenceMessage {
  return { hostId, by, fenceTime: dateOf(atMs), reason };
}

/**
 * Returns the kind in the model's form; undefined for UNSPECIFIED. Throws InvalidArgumentError for an unknown value.
 */
export function exportKindOf(kind: ExportKind): Disk["exportKind"] {
  switch (kind) {
    case ExportKind.UNSPECIFIED:
      return undefined;
    case ExportKind.DEVICE:
      return "DEVICE";
    case ExportKind.NBD:
      return "NBD";
    default:
      throw new InvalidArgumentError("export_kind has a value that this registry does not know", {
        about: { field: "export_kind" },
      });
  }
}

/**
 * Returns the rule in the model's form; undefined for UNSPECIFIED. Throws InvalidArgumentError for an unknown value.
 */
export function silenceRuleOf(rule: OnHostSilence): "KEEP" | "FENCE" | undefined {
  switch (rule) {
    case OnHostSilence.UNSPECIFIED:
      return undefined;
    case OnHostSilence.KEEP:
      return "KEEP";
    case OnHostSilence.FENCE:
      return "FENCE";
    default:
      throw new InvalidArgumentError("on_host_silence has a value that this registry does not know", {
        about: { field: "on_host_silence" },
      });
  }
}

export function actionResultMessage(result: ActionResult): ActionResultMessage {
  return {
    code: ActionCode[result.code],
    message: result.message,
    retryDelay: result.code === "E_TRY_AGAIN" ? durationOf(result.retryAfterMs) : undefined,
    dependentDiskIds: [...result.dependentDiskIds],
    erase: result.erase && { ...result.erase },
    unerasedDeviceIds: [...(result.unerasedDeviceIds ?? [])],
  };
}

export function stampedDeviceMessage(device: StampedDevice): StampedDeviceMessage {
  const { deviceId, stamp, reason, expected, lost, endedSessionNumber = 0, labelId = "" } = device;
  const runs = (lost?.sessions ?? []).map((session) => ({ ...session, ended: false, isErase: session.diskId === "" }));
  const floor = lost?.floor ?? 0;
  const attached = { expected: expected && identityMessage(expected), endedSessionNumber, labelId };
  return { deviceId, stamp: { ...stamp }, reason, ...attached, floor, runs };
}

export function otherFleetMessage({ adoptedAtMs, heardAtMs, ...other }: OtherFleet): OtherFleetMessage {
  return { ...other, reportTime: dateOf(heardAtMs), adoptTime: dateIf(adoptedAtMs) };
}

export function massSilenceMessage({ sinceMs, ...counts }: ToldMassSilence): MassSilenceMessage {
  return { ...counts, startTime: dateIf(sinceMs) };
}

export function refusedNumbersMessage([hostId, { heardAtMs, ...numbers }]: readonly [
  HostId,
  Refused,
]): RefusedNumbersMessage {
  return { hostId, ...numbers, reportTime: dateOf(heardAtMs) };
}

/** Returns the stamp of requests other than attach and detach orders. */
export function leaderStamp(leader: Leader): StampMessage {
  return { ...leader, deviceGeneration: 0 };
}

export function healthOf(health: Health, field: string): ModelHealth {
  switch (health) {
    case Health.ONLINE:
    case Health.UNSPECIFIED:
      return "ONLINE";
    case Health.WARNING:
      return "WARNING";
    case Health.ERROR:
      return "ERROR";
    default:
      throw new InvalidArgumentError(`${field} has a value that this registry does not know`, { about: { field } });
  }
}

/** Returns the state that a filter selects; undefined for UNSPECIFIED, which selects all states. */
export function hostStateOf(state: HostState): Host["state"] | undefined {
  switch (state) {
    case HostState.UNSPECIFIED:
      return undefined;
    case HostState.ONLINE:
      return "ONLINE";
    case HostState.WARNING:
      return "WARNING";
    case HostState.UNAVAILABLE:
      return "UNAVAILABLE";
    case HostState.DEAD:
      return "DEAD";
    default:
      throw new InvalidArgumentError("state has a value that this registry does not know", {
        about: { field: "state" },
      });
  }
}

/** Returns the state that a filter selects; undefined for UNSPECIFIED, which selects all states. */
export function attachStateOf(state: AttachState): Device["attachState"] | undefined {
  switch (state) {
    case AttachState.UNSPECIFIED:
      return undefined;
    case AttachState.UNKNOWN:
      return "UNKNOWN";
    case AttachState.ATTACHING:
      return "ATTACHING";
    case AttachState.ATTACHED:
      return "ATTACHED";
    case AttachState.CLOSING:
      return "CLOSING";
    case AttachState.DETACHED:
      return "DETACHED";
    default:
      throw new InvalidArgumentError("attach_state has a value that this registry does not know", {
        about: { field: "attach_state" },
      });
  }
}

const OUTCOME_CODES: Partial<Record<OrderOutcome, OutcomeCode>> = {
  [OrderOutcome.DONE]: "DONE",
  [OrderOutcome.ALREADY]: "ALREADY",
  [OrderOutcome.PENDING]: "PENDING",
  [OrderOutcome.OUTDATED]: "OUTDATED",
  [OrderOutcome.BELOW_FLOOR]: "BELOW_FLOOR",
  [OrderOutcome.UNKNOWN_DEVICE]: "UNKNOWN_DEVICE",
  [OrderOutcome.DEVICE_CHANGED]: "DEVICE_CHANGED",
  [OrderOutcome.IO_ERROR]: "IO_ERROR",
  [OrderOutcome.NOT_ATTACHED]: "NOT_ATTACHED",
};

// An agent may report any number; an invalid one counts as 0.
const countOr0 = (value: number): number => (Number.isSafeInteger(value) && value > 0 ? value : 0);

/** Returns the outcome in the model's form. An unknown code counts as a failure. */
export function outcomeOf(outcome: DeviceOutcomeMessage): DeviceOutcome {
  const code = OUTCOME_CODES[outcome.outcome];
  const message = code === undefined ? `unknown outcome: ${outcome.message}` : outcome.message;
  const { deviceId, stamp, pendingMs, inFlightOperations } = outcome;
  const waiting = { pendingMs: countOr0(pendingMs), inFlightOperations: countOr0(inFlightOperations) };
  return { deviceId, code: code ?? "IO_ERROR", message, stamp, ...waiting };
}
