import { createHash } from "node:crypto";
import {
  type AgentDevice,
  type CopyDeviceRequest,
  type DeviceOrder as DeviceOrderMessage,
  type DeviceOutcome as DeviceOutcomeMessage,
  type ExpectedDevice as ExpectedDeviceMessage,
  type ExportDiskRequest,
  Extent,
  type GetMirrorResponse,
  MirrorState,
  OrderOutcome,
  type RememberedRun,
  ReportedDevice,
  type Run as RunMessage,
  type StampedDevice,
  type Stamp as StampMessage,
} from "@diskmesh/api/internal";
import { type DeviceIdentity, Health, IdentifiedBy } from "@diskmesh/api/registry";
import {
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
import type { Device } from "../devices/device.js";
import type { DeviceProblem } from "../devices/device-problem.js";
import type { UnreportedError } from "../devices/hardware-errors.js";
import type { DeviceOutcome } from "../devices/outcome.js";
import { exportKindOf } from "../engines/export-kind.js";
import { encodeLabel, parseLabelId } from "../labels/label-wire.js";
import { withRecord } from "../labels/record-wire.js";
import type { CopyOrder } from "../mirror/copier.js";
import type { Mirrored, MirrorStatus } from "../mirror/mirror.js";
import type { CopiedTarget } from "../mirror/movable-part.js";
import type { RefusedFile } from "../model/discovery.js";
import { devicesOf, placeOf } from "../model/exports.js";
import type { LabelFinding } from "../model/label.js";
import {
  type AgentMemory,
  type ExportDevice,
  type ExportExtent,
  type ExportSpec,
  lastStamp,
  type OrderKind,
  type RememberedIdentity,
  type RememberedSession,
} from "../model/memory.js";
import type { DeviceOrder } from "../model/orders.js";
import type { OrderedRun } from "../model/run-record.js";
import { type DeviceRun, describeRun, nameOfRun, overlaps, WHOLE_DEVICE } from "../model/runs.js";
import { highestSession, lastSession, SESSION_KEY_BYTES } from "../model/sessions.js";

/** Translates between protobuf messages and the model; only this file, `registration-wire.ts` and those of labels and records do. */

/** Parses the stamp of a request other than an attach or detach order; its device generation is 0. */
export function parseLeaderStamp(stamp: StampMessage | undefined): Stamp {
  return parseStamp("stamp", stamp, 0);
}

function parseStamp(field: string, stamp: StampMessage | undefined, minDeviceGeneration: number): Stamp {
  if (!stamp) throw new InvalidArgumentError(`${field} is missing: give one`, { about: { field } });
  const { tabletGeneration, deviceGeneration } = stamp;
  const tabletId = parseId(`${field}.tablet_id`, stamp.tabletId);
  const incarnation = parseId(`${field}.incarnation`, stamp.incarnation);
  atLeast(`${field}.tablet_generation`, tabletGeneration, 1);
  atLeast(`${field}.device_generation`, deviceGeneration, minDeviceGeneration);
  return { tabletId, incarnation, tabletGeneration, deviceGeneration };
}

export function atLeast(field: string, value: number, minimum: number): number {
  if (value >= minimum) return value;
  throw new InvalidArgumentError(`${field} is ${value}: it must be at least ${minimum}`, { about: { field } });
}

/** Parses a number of bytes, of at most that many. */
function within(field: string, value: number, maximum: number): number {
  if (atLeast(field, value, 0) <= maximum) return value;
  throw new InvalidArgumentError(`${field} is ${value}: it must be at most ${maximum}`, { about: { field } });
}

export function parseSessionNumber(value: number): number {
  return atLeast("session_number", value, 1);
}

/** Parses the runs of an order: whole devices by their ids, then further runs. */
export function parseRuns(
  { deviceIds, runs }: { readonly deviceIds: readonly string[]; readonly runs: readonly RunMessage[] },
  maxRuns: number,
): OrderedRun[] {
  refuseTooMany("device_ids", deviceIds.length + runs.length, maxRuns);
  const whole = deviceIds.map((deviceId) => parseRun({ deviceId, ...WHOLE_DEVICE }));
  const parsed = [...whole, ...runs.map((run) => withRecord(parseRun(run), run.record))];
  refuseRepeated(parsed.map(nameOfRun));
  return parsed;
}

/** Parses the runs that an order about an export opens, of which there may be none. */
export function parseOpened(
  { openDeviceIds: deviceIds, openRuns: runs }: Pick<ExportDiskRequest, "openDeviceIds" | "openRuns">,
  maxRuns: number,
): OrderedRun[] {
  return deviceIds.length + runs.length === 0 ? [] : parseRuns({ deviceIds, runs }, maxRuns);
}

export function parseRun({ deviceId, offsetBytes, sizeBytes }: Omit<RunMessage, "record">): DeviceRun {
  const run = { deviceId: parseDeviceId(deviceId), offsetBytes: parseOffset(offsetBytes), sizeBytes };
  atLeast("size_bytes", sizeBytes, 0);
  if (Number.isSafeInteger(offsetBytes + sizeBytes)) return run;
  throw new InvalidArgumentError("offset_bytes + size_bytes is above 2^53 - 1", { about: { field: "size_bytes" } });
}

export function parseOffset(offsetBytes: number): number {
  return atLeast("offset_bytes", offsetBytes, 0);
}

export function parseOrders(
  kind: OrderKind,
  messages: readonly DeviceOrderMessage[],
  maxDevices: number,
): DeviceOrder[] {
  refuseTooMany("devices", messages.length, maxDevices);
  const orders = messages.map((message) => ({ ...parseOrder(message), kind }));
  refuseRepeated(orders.map(({ deviceId }) => deviceId));
  return orders;
}

/** Parses an attach or detach order for a device, without its kind. */
export function parseOrder(message: DeviceOrderMessage | StampedDevice): Omit<DeviceOrder, "kind"> {
  const { expected, endedSessionNumber, labelId } = message;
  const deviceId = parseDeviceId(message.deviceId);
  return {
    deviceId,
    stamp: parseStamp(`stamp of device ${deviceId}`, message.stamp, 1),
    expected: expected && parseExpected(expected),
    endedSessionNumber: atLeast("ended_session_number", endedSessionNumber, 0),
    labelId: labelId === "" ? undefined : parseLabelId("label_id", labelId),
  };
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

function refuseRepeated(names: readonly string[]): void {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name)) throw new InvalidArgumentError(`device ${name} is named twice in one request`);
    seen.add(name);
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
  refuseRepeated(devicesOf({ extents }).map(placeOf));
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
  const sizeBytes = parseSizeBytes("size_bytes", request.sizeBytes);
  const run = parseRun({ ...request, sizeBytes });
  if (source.deviceId === run.deviceId && overlaps({ offsetBytes: 0, ...source }, run))
    throw new InvalidArgumentError(`source is ${describeRun(run)} itself`, { about: { field: "source.device_id" } });
  return {
    diskId: parseDiskId(request.diskId),
    sessionNumber: parseSessionNumber(request.sessionNumber),
    source,
    ...run,
    bytesPerSecond: atLeast("bytes_per_second", request.bytesPerSecond, 0),
    resumeToken: request.resumeToken,
    copiedBytes: within("copied_bytes", request.copiedBytes, sizeBytes),
  };
}

function parseExtent(extent: Extent, ownHostId: HostId): ExportExtent {
  const own = parseExportDevice("extents", extent, ownHostId);
  if (extent.target === undefined) return own;
  const target = parseExportDevice("extents.target", extent.target, ownHostId);
  const bytesPerSecond = atLeast("extents.target.bytes_per_second", extent.target.bytesPerSecond, 0);
  const copiedBytes = within("extents.target.copied_bytes", extent.target.copiedBytes, own.sizeBytes);
  return { ...own, target: { ...target, bytesPerSecond, ...(copiedBytes > 0 && { copiedBytes }) } };
}

function parseExportDevice(field: string, extent: Extent, ownHostId: HostId): ExportDevice {
  const hostId = parseHostId(extent.hostId);
  return {
    deviceId: parseDeviceId(extent.deviceId),
    hostId,
    sizeBytes: parseSizeBytes(`${field}.size_bytes`, extent.sizeBytes),
    ...(extent.offsetBytes !== 0 && { offsetBytes: parseOffset(extent.offsetBytes) }),
    ...(extent.skipBytes !== 0 && {
      skipBytes: extent.offsetBytes - parseOffset(extent.offsetBytes - extent.skipBytes),
    }),
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

/** Encodes a target whose move ended with its export. */
export function encodeCopied({ deviceId, offsetBytes = 0, sessionNumber = 0, copiedBytes }: CopiedTarget): Extent {
  return Extent.fromPartial({ deviceId, offsetBytes, sessionNumber, copiedBytes });
}

const COPYING = { state: MirrorState.COPYING, failedDeviceId: "", message: "" };

/** Encodes how far the mirror of a run to a target is. */
export function encodeMirror({ answer, copiedBytes }: MirrorStatus, mirrored: Mirrored): GetMirrorResponse {
  if (answer.is === "copying") return { ...COPYING, copiedBytes };
  if (answer.is === "equal") return { ...COPYING, state: MirrorState.EQUAL, copiedBytes };
  const failedDeviceId = answer.at === undefined ? "" : mirrored[answer.at].deviceId;
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
  below_floor: OrderOutcome.BELOW_FLOOR,
} as const satisfies Record<DeviceOutcome["outcome"], OrderOutcome>;

/** Encodes an outcome. `blockAddress` is set for a session that a holder on another host reaches there. */
export function encodeOutcome(outcome: DeviceOutcome, blockAddress = ""): DeviceOutcomeMessage {
  const { deviceId, offsetBytes = 0, sizeBytes = 0, message, stamp, floor = 0, waiting } = outcome;
  const { forMs = 0, inFlightOperations = 0 } = waiting ?? {};
  const pending = { pendingMs: Math.round(forMs), inFlightOperations };
  const run = { deviceId, offsetBytes, sizeBytes };
  return { ...run, outcome: OUTCOMES[outcome.outcome], message, stamp: { ...stamp }, floor, ...pending, blockAddress };
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
    sessionNumber: highestSession(memory, device.id),
    ...encodeHealth(device.problem),
  };
}

export function encodeReportedDevice(
  device: Device,
  memory: AgentMemory,
  { unreported, label }: { readonly unreported: UnreportedError | undefined; readonly label: LabelFinding | undefined },
): ReportedDevice {
  const { filePhase: _, inFlightOperations: __, identifiedBy: ___, ...reported } = encodeAgentDevice(device, memory);
  const sessionDiskId = lastSession(memory, device.id)?.diskId ?? "";
  const { sessions = [], floor = 0 } = memory.devices.get(device.id) ?? {};
  const { message: hardwareError = "", ageMs: hardwareErrorAgeMs = 0 } = unreported ?? {};
  return {
    ...reported,
    ...encodeHealth(device.problemNow),
    sessionDiskId,
    floor,
    runsDigest: digestOf(sessions),
    hardwareError,
    hardwareErrorAgeMs,
    // A device whose path names another file than the held one counts as not attached.
    attached: device.attached && !device.replaced,
    ...encodeLabel(label),
  };
}

function digestOf(sessions: readonly RememberedSession[]): string {
  const lines = sessions.map(
    ({ offsetBytes, sizeBytes, number, diskId }) => `${offsetBytes} ${sizeBytes} ${number} ${diskId}\n`,
  );
  return createHash("sha256").update(lines.join("")).digest("hex");
}

export function encodeRun(session: RememberedSession): RememberedRun {
  const { offsetBytes, sizeBytes, number: sessionNumber, diskId, holderHostId, ended, purpose } = session;
  return { offsetBytes, sizeBytes, sessionNumber, diskId, holderHostId, ended, isErase: purpose === "erase" };
}

/** Encodes a discovered file that registries would refuse: a device of size 0 in health ERROR. */
export function encodeRefusedFile({ deviceId, path, reason }: RefusedFile, memory: AgentMemory): ReportedDevice {
  const sessionNumber = highestSession(memory, deviceId);
  const sessionDiskId = lastSession(memory, deviceId)?.diskId ?? "";
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
