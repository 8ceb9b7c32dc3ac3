import {
  type AgentDevice,
  type CopyDeviceRequest,
  type DeviceOrder as DeviceOrderMessage,
  type DeviceOutcome as DeviceOutcomeMessage,
  type ExpectedDevice as ExpectedDeviceMessage,
  type ExportDiskRequest,
  type Extent,
  type GetMirrorResponse,
  MirrorState,
  OrderOutcome,
  type RegisterAgentResponse,
  ReportedDevice,
  type StampedDevice,
  type Stamp as StampMessage,
} from "@diskmesh/api/internal";
import { type DeviceIdentity, ExportKind, Health, IdentifiedBy } from "@diskmesh/api/registry";
import {
  type DeviceId,
  formatHostPort,
  type HostId,
  InvalidArgumentError,
  identifiedBy,
  MAX_PATH_LENGTH,
  parseAcceptedIoLimits,
  parseDeviceId,
  parseDiskId,
  parseHostId,
  parseHostPort,
  parseId,
  parseSizeBytes,
  type Stamp,
} from "@diskmesh/domain";
import type { Device } from "./devices/device.js";
import type { DeviceProblem } from "./devices/device-problem.js";
import type { UnreportedError } from "./devices/hardware-errors.js";
import type { DeviceOutcome } from "./devices/outcome.js";
import type { MirrorStatus } from "./exports/mirror.js";
import type { RefusedFile } from "./model/discovery.js";
import { devicesOf } from "./model/exports.js";
import {
  type AgentMemory,
  type ExportDevice,
  type ExportExtent,
  type ExportSpec,
  lastStamp,
  type OrderKind,
  type RememberedIdentity,
} from "./model/memory.js";
import type { DeviceOrder } from "./model/orders.js";
import type { RegistrationAnswer } from "./model/registration.js";
import { SESSION_KEY_BYTES } from "./model/sessions.js";
import type { CopyOrder } from "./moves/copier.js";

/** Translates between protobuf messages and the model; only this file does. */

/** Parses the stamp of a request other than an attach or detach order; its device generation is 0. */
export function parseLeaderStamp(stamp: StampMessage | undefined): Stamp {
  return parseStampOf("stamp", stamp, 0);
}

function parseStamp(field: string, stamp: StampMessage | undefined): Stamp {
  return parseStampOf(field, stamp, 1);
}

function parseStampOf(field: string, stamp: StampMessage | undefined, minDeviceGeneration: number): Stamp {
  if (!stamp) throw new InvalidArgumentError(`${field} is missing: give one`, { about: { field } });
  const { tabletGeneration, deviceGeneration } = stamp;
  const tabletId = parseId(`${field}.tablet_id`, stamp.tabletId);
  const incarnation = parseId(`${field}.incarnation`, stamp.incarnation);
  atLeast(`${field}.tablet_generation`, tabletGeneration, 1);
  atLeast(`${field}.device_generation`, deviceGeneration, minDeviceGeneration);
  return { tabletId, incarnation, tabletGeneration, deviceGeneration };
}

function atLeast(field: string, value: number, minimum: number): number {
  if (value >= minimum) return value;
  throw new InvalidArgumentError(`${field} is ${value}: it must be at least ${minimum}`, { about: { field } });
}

export function parseSessionNumber(value: number): number {
  return atLeast("session_number", value, 1);
}

export function parseDeviceIds(values: readonly string[], maxDevices: number): DeviceId[] {
  return parseNamed("device_ids", values, maxDevices);
}

/** Parses device ids like `parseDeviceIds`, and accepts an empty list. */
export function parseSomeDeviceIds(field: string, values: readonly string[], maxDevices: number): DeviceId[] {
  return values.length === 0 ? [] : parseNamed(field, values, maxDevices);
}

function parseNamed(field: string, values: readonly string[], maxDevices: number): DeviceId[] {
  refuseTooMany(field, values.length, maxDevices);
  const deviceIds = values.map((value) => parseDeviceId(value, field));
  refuseRepeated(deviceIds);
  return deviceIds;
}

export function parseOrders(
  kind: OrderKind,
  messages: readonly DeviceOrderMessage[],
  maxDevices: number,
): DeviceOrder[] {
  refuseTooMany("devices", messages.length, maxDevices);
  const orders = messages.map((message) => {
    const deviceId = parseDeviceId(message.deviceId);
    const stamp = parseStamp(`stamp of device ${deviceId}`, message.stamp);
    return { deviceId, stamp, kind, expected: message.expected && parseExpected(message.expected) };
  });
  refuseRepeated(orders.map(({ deviceId }) => deviceId));
  return orders;
}

function parseExpected(message: ExpectedDeviceMessage | DeviceIdentity): RememberedIdentity {
  const { offsetBytes, sizeBytes, blockSizeBytes, serialNumber, fileIdentity } = message;
  return { offsetBytes, sizeBytes, blockSizeBytes, serialNumber, fileIdentity };
}

function refuseTooMany(field: string, count: number, limit: number): void {
  if (count === 0) throw new InvalidArgumentError(`${field} is empty: give at least one entry`, { about: { field } });
  if (count > limit)
    throw new InvalidArgumentError(`${field} has ${count} entries: at most ${limit} may be in one request`, {
      about: { field },
    });
}

function refuseRepeated(deviceIds: readonly DeviceId[]): void {
  const seen = new Set<DeviceId>();
  for (const deviceId of deviceIds) {
    if (seen.has(deviceId)) throw new InvalidArgumentError(`device ${deviceId} is named twice in one request`);
    seen.add(deviceId);
  }
}

/** Parses the key of a session; returns it in hex. Errors do not contain it. */
export function parseSessionKey(field: string, key: Uint8Array): string {
  if (key.length === SESSION_KEY_BYTES) return Buffer.from(key).toString("hex");
  throw new InvalidArgumentError(`${field} has ${key.length} bytes: it must have ${SESSION_KEY_BYTES}`, {
    about: { field },
  });
}

/** Parses an order to serve a disk on host `ownHostId`. */
export function parseExportSpec(request: ExportDiskRequest, ownHostId: HostId, maxExtents: number): ExportSpec {
  const diskId = parseDiskId(request.diskId);
  refuseTooMany("extents", request.extents.length, maxExtents);
  const blockSizeBytes = parseSizeBytes("block_size_bytes", request.blockSizeBytes);
  // NBD accepts only powers of two as preferred block sizes.
  if (blockSizeBytes < 512 || (blockSizeBytes & (blockSizeBytes - 1)) !== 0)
    throw new InvalidArgumentError(`block_size_bytes is ${blockSizeBytes}: it must be a power of two from 512`, {
      about: { field: "block_size_bytes" },
    });
  const extents = request.extents.map((extent) => parseExtent(extent, ownHostId));
  refuseRepeated(devicesOf({ extents }).map(({ deviceId }) => deviceId));
  parseSizeBytes(
    "the sum of extents.size_bytes",
    extents.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
  );
  const sessionNumber = parseSessionNumber(request.sessionNumber);
  return { diskId, sessionNumber, blockSizeBytes, extents, ...parseAccess(request) };
}

function parseAccess({ readOnly, limits, exportKind, revision }: ExportDiskRequest): Partial<ExportSpec> {
  const parsedLimits = parseAcceptedIoLimits(limits);
  const kind = exportKindOf(exportKind);
  return {
    ...(readOnly && { readOnly }),
    ...(parsedLimits && { limits: parsedLimits }),
    ...(kind && { exportKind: kind }),
    ...(revision > 0 && { revision }),
  };
}

/** Parses an order to copy a device to a device of host `ownHostId`. */
export function parseCopyOrder(request: CopyDeviceRequest, ownHostId: HostId): CopyOrder {
  if (request.source === undefined)
    throw new InvalidArgumentError("source is missing: give one", { about: { field: "source" } });
  const source = parseExportDevice("source", request.source, ownHostId);
  const deviceId = parseDeviceId(request.deviceId);
  if (source.deviceId === deviceId)
    throw new InvalidArgumentError(`source is device ${deviceId} itself`, { about: { field: "source.device_id" } });
  const sizeBytes = parseSizeBytes("size_bytes", request.sizeBytes);
  return {
    diskId: parseDiskId(request.diskId),
    sessionNumber: parseSessionNumber(request.sessionNumber),
    source,
    deviceId,
    sizeBytes,
    bytesPerSecond: atLeast("bytes_per_second", request.bytesPerSecond, 0),
  };
}

function exportKindOf(kind: ExportKind): ExportSpec["exportKind"] {
  if (kind === ExportKind.UNSPECIFIED) return undefined;
  if (kind === ExportKind.DEVICE) return "DEVICE";
  if (kind === ExportKind.NBD) return "NBD";
  throw new InvalidArgumentError("export_kind has a value that this agent does not know", {
    about: { field: "export_kind" },
  });
}

function parseExtent(extent: Extent, ownHostId: HostId): ExportExtent {
  const own = parseExportDevice("extents", extent, ownHostId);
  if (extent.target === undefined) return own;
  const target = parseExportDevice("extents.target", extent.target, ownHostId);
  const bytesPerSecond = atLeast("extents.target.bytes_per_second", extent.target.bytesPerSecond, 0);
  return { ...own, target: { ...target, bytesPerSecond } };
}

function parseExportDevice(field: string, extent: Extent, ownHostId: HostId): ExportDevice {
  const hostId = parseHostId(extent.hostId);
  return {
    deviceId: parseDeviceId(extent.deviceId),
    hostId,
    sizeBytes: parseSizeBytes(`${field}.size_bytes`, extent.sizeBytes),
    ...(extent.sessionNumber > 0 && { sessionNumber: extent.sessionNumber }),
    ...(hostId === ownHostId ? NO_REACH : parseReach(field, extent)),
  };
}

const NO_REACH = { blockAddress: "", sessionKey: "" };

/** Parses what reaches a device of another host. Both fields are empty in orders that keep what the agent knows. */
function parseReach(field: string, { blockAddress, sessionKey }: Extent): typeof NO_REACH {
  if (blockAddress === "" && sessionKey.length === 0) return NO_REACH;
  return {
    blockAddress: formatHostPort(parseHostPort(`${field}.block_address`, blockAddress)),
    sessionKey: parseSessionKey(`${field}.session_key`, sessionKey),
  };
}

const COPYING = { state: MirrorState.COPYING, failedDeviceId: "", message: "" };

/** Encodes how far the mirror of a device to a target is. */
export function encodeMirror(
  { answer, copiedBytes }: MirrorStatus,
  devices: { readonly source: DeviceId; readonly target: DeviceId },
): GetMirrorResponse {
  if (answer.is === "copying") return { ...COPYING, copiedBytes };
  if (answer.is === "equal") return { ...COPYING, state: MirrorState.EQUAL, copiedBytes };
  const failedDeviceId = answer.at === undefined ? "" : devices[answer.at];
  return { state: MirrorState.FAILED, copiedBytes, failedDeviceId, message: answer.message };
}

const OUTCOMES = {
  done: OrderOutcome.DONE,
  already: OrderOutcome.ALREADY,
  pending: OrderOutcome.PENDING,
  outdated: OrderOutcome.OUTDATED,
  unknown_device: OrderOutcome.UNKNOWN_DEVICE,
  device_changed: OrderOutcome.DEVICE_CHANGED,
  io_error: OrderOutcome.IO_ERROR,
  not_attached: OrderOutcome.NOT_ATTACHED,
} as const satisfies Record<DeviceOutcome["outcome"], OrderOutcome>;

/** Encodes an outcome. `blockAddress` is set for a session that a holder on another host reaches there. */
export function encodeOutcome(outcome: DeviceOutcome, blockAddress = ""): DeviceOutcomeMessage {
  const { deviceId, message, stamp, waiting } = outcome;
  const { forMs = 0, inFlightOperations = 0 } = waiting ?? {};
  const pending = { pendingMs: Math.round(forMs), inFlightOperations };
  return { deviceId, outcome: OUTCOMES[outcome.outcome], message, stamp: { ...stamp }, ...pending, blockAddress };
}

export function encodeAgentDevice(device: Device, memory: AgentMemory): AgentDevice {
  const { path, offsetBytes, blockSizeBytes, pool } = device.config;
  return {
    deviceId: device.id,
    path,
    offsetBytes,
    blockSizeBytes,
    pool,
    ...device.reported,
    identifiedBy: IdentifiedBy[identifiedBy(device.reported) ?? "UNSPECIFIED"],
    attached: device.attached,
    filePhase: device.file.phase,
    inFlightOperations: device.inFlight,
    stamp: lastStamp(memory, device.id),
    sessionNumber: memory.devices.get(device.id)?.session?.number ?? 0,
    ...encodeHealth(device.problem),
  };
}

export function encodeReportedDevice(
  device: Device,
  memory: AgentMemory,
  unreported: UnreportedError | undefined,
): ReportedDevice {
  const { filePhase: _, inFlightOperations: __, identifiedBy: ___, ...reported } = encodeAgentDevice(device, memory);
  const sessionDiskId = memory.devices.get(device.id)?.session?.diskId ?? "";
  const { message: hardwareError = "", ageMs: hardwareErrorAgeMs = 0 } = unreported ?? {};
  return {
    ...reported,
    ...encodeHealth(device.problemNow),
    sessionDiskId,
    hardwareError,
    hardwareErrorAgeMs,
    // A device whose path names another file than the held one counts as not attached.
    attached: device.attached && !device.replaced,
  };
}

/** Encodes a discovered file that registries would refuse: a device of size 0 in health ERROR. */
export function encodeRefusedFile({ deviceId, path, reason }: RefusedFile, memory: AgentMemory): ReportedDevice {
  const { number: sessionNumber = 0, diskId: sessionDiskId = "" } = memory.devices.get(deviceId)?.session ?? {};
  const error = encodeHealth({ level: "ERROR", message: reason });
  return ReportedDevice.fromPartial({ deviceId, path: printable(path), sessionNumber, sessionDiskId, ...error });
}

/** Escapes control characters of a path, because registries refuse them. */
function printable(path: string): string {
  return JSON.stringify(path)
    .slice(1, -1)
    .replace(/\p{Cc}/gu, "?")
    .slice(0, MAX_PATH_LENGTH);
}

export function encodeHealth(problem: DeviceProblem | undefined): { health: Health; healthMessage: string } {
  if (problem === undefined) return { health: Health.ONLINE, healthMessage: "" };
  return { health: Health[problem.level], healthMessage: problem.message };
}

export function parseRegistrationAnswer(message: RegisterAgentResponse): RegistrationAnswer {
  const parse = ({ deviceId: id, stamp, expected }: StampedDevice) => {
    const deviceId = parseDeviceId(id);
    return {
      deviceId,
      stamp: parseStamp(`stamp of device ${deviceId}`, stamp),
      expected: expected && parseExpected(expected),
    };
  };
  return {
    tabletId: parseId("tablet_id", message.tabletId),
    incarnation: parseId("incarnation", message.incarnation),
    predecessors: message.predecessors.map(({ tabletId, incarnation }) => ({
      tabletId: parseId("predecessors.tablet_id", tabletId),
      incarnation: parseId("predecessors.incarnation", incarnation),
    })),
    tabletGeneration: atLeast("tablet_generation", message.tabletGeneration, 1),
    allowed: message.allowedDevices.map(parse),
    unknown: message.unknownDevices.map(parse),
  };
}
