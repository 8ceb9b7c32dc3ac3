import {
  type DeviceId,
  type DiskId,
  type HostId,
  type IoLimits,
  parseAcceptedIoLimits,
  parseDeviceId,
  parseDiskId,
  parseHostId,
} from "@diskmesh/domain";
import type {
  AgentMemory,
  DeviceMemory,
  ExportDevice,
  ExportExtent,
  ExportMemory,
  ExportSpec,
  RememberedIdentity,
  RememberedOrder,
  RememberedSession,
} from "./memory.js";
import { WHOLE_DEVICE } from "./runs.js";

const FORMAT = "diskmesh-agent-cache-3";
/** Format of 0.1.0, in which a device has one session, of all its bytes. */
const FORMER_FORMAT = "diskmesh-agent-cache-2";

/** Encodes the memory as text, which the caller seals with a checksum. */
export function encodeCache({ devices, exports, ...rest }: AgentMemory): string {
  const maps = { devices: Object.fromEntries(devices), exports: Object.fromEntries(exports) };
  return `${JSON.stringify({ format: FORMAT, ...rest, ...maps, complete: true })}\n`;
}

/**
 * Decodes the text of a cache file. Throws an Error with the reason when the text must not be used: incomplete, of
 * another format, or of another host.
 */
export function decodeCache(text: string, hostId: HostId): AgentMemory {
  const root = asObject("the file", JSON.parse(text));
  if (root.format !== FORMAT && root.format !== FORMER_FORMAT)
    throw new Error(`the cache's format is ${JSON.stringify(root.format)}, not ${FORMAT}`);
  // `complete` is the last key. A truncated text does not parse as JSON; the key detects texts that were shortened by
  // hand.
  if (root.complete !== true) throw new Error("the cache is not complete");
  if (root.hostId !== hostId)
    throw new Error(`the cache belongs to host ${JSON.stringify(root.hostId)}, not ${hostId}`);
  const devices = new Map<DeviceId, DeviceMemory>();
  for (const [key, value] of Object.entries(asObject("devices", root.devices)))
    devices.set(parseDeviceId(key), decodeDevice(`devices.${key}`, value));
  const exports = new Map<DiskId, ExportMemory>();
  for (const [key, value] of Object.entries(asObject("exports", root.exports)))
    exports.set(parseDiskId(key), decodeExport(parseDiskId(key), value));
  return {
    hostId,
    tabletId: asString("tabletId", root.tabletId),
    incarnation: asString("incarnation", root.incarnation),
    formerIncarnations: asStrings("formerIncarnations", root.formerIncarnations),
    tabletGeneration: asCount("tabletGeneration", root.tabletGeneration),
    devices,
    exports,
    exportFloor: asCount("exportFloor", root.exportFloor),
    ...(root.blockPort !== undefined && { blockPort: asCount("blockPort", root.blockPort) }),
  };
}

function decodeDevice(where: string, value: unknown): DeviceMemory {
  const device = asObject(where, value);
  const order = device.order === undefined ? undefined : decodeOrder(`${where}.order`, device.order);
  const identityIn = (key: "identity" | "formerIdentity") =>
    device[key] === undefined ? {} : { [key]: decodeIdentity(`${where}.${key}`, device[key]) };
  const sessions =
    device.session === undefined
      ? asList(`${where}.sessions`, device.sessions ?? []).map((item, index) =>
          decodeSession(`${where}.sessions.${index}`, item),
        )
      : [decodeSession(`${where}.session`, { ...WHOLE_DEVICE, ...asObject(`${where}.session`, device.session) })];
  const hardwareError =
    device.hardwareError === undefined ? undefined : asString(`${where}.hardwareError`, device.hardwareError);
  const hardwareErrorAtMs =
    device.hardwareErrorAtMs === undefined
      ? undefined
      : asCount(`${where}.hardwareErrorAtMs`, device.hardwareErrorAtMs);
  return {
    ...(order && { order }),
    ...identityIn("identity"),
    ...identityIn("formerIdentity"),
    ...(device.labelId !== undefined && { labelId: asString(`${where}.labelId`, device.labelId) }),
    ...(sessions.length > 0 && { sessions }),
    ...(device.floor !== undefined && { floor: asCount(`${where}.floor`, device.floor) }),
    ...(hardwareError !== undefined && { hardwareError }),
    ...(hardwareErrorAtMs !== undefined && { hardwareErrorAtMs }),
  };
}

function decodeIdentity(where: string, value: unknown): RememberedIdentity {
  const identity = asObject(where, value);
  return {
    offsetBytes: asCount(`${where}.offsetBytes`, identity.offsetBytes),
    sizeBytes: asCount(`${where}.sizeBytes`, identity.sizeBytes),
    blockSizeBytes: asCount(`${where}.blockSizeBytes`, identity.blockSizeBytes),
    serialNumber: asString(`${where}.serialNumber`, identity.serialNumber),
    fileIdentity: asString(`${where}.fileIdentity`, identity.fileIdentity),
  };
}

function decodeOrder(where: string, value: unknown): RememberedOrder {
  const order = asObject(where, value);
  if (order.kind !== "attach" && order.kind !== "detach")
    throw new Error(`${where}.kind is ${JSON.stringify(order.kind)}, which is not a known kind of order`);
  return {
    tabletGeneration: asCount(`${where}.tabletGeneration`, order.tabletGeneration),
    deviceGeneration: asCount(`${where}.deviceGeneration`, order.deviceGeneration),
    kind: order.kind,
  };
}

function decodeSession(where: string, value: unknown): RememberedSession {
  const session = asObject(where, value);
  if (session.purpose !== "disk" && session.purpose !== "erase" && session.purpose !== "label")
    throw new Error(`${where}.purpose is ${JSON.stringify(session.purpose)}, which is not a known purpose`);
  if (typeof session.ended !== "boolean") throw new Error(`${where}.ended is not true or false`);
  return {
    number: asCount(`${where}.number`, session.number),
    purpose: session.purpose,
    diskId: asString(`${where}.diskId`, session.diskId),
    holderHostId: asString(`${where}.holderHostId`, session.holderHostId),
    ended: session.ended,
    offsetBytes: asCount(`${where}.offsetBytes`, session.offsetBytes),
    sizeBytes: asCount(`${where}.sizeBytes`, session.sizeBytes),
    ...(session.sessionKey !== undefined && { sessionKey: asString(`${where}.sessionKey`, session.sessionKey) }),
  };
}

function decodeExport(diskId: DiskId, value: unknown): ExportMemory {
  const where = `exports.${diskId}`;
  const known = asObject(where, value);
  const sessionNumber = asCount(`${where}.sessionNumber`, known.sessionNumber);
  if (known.spec === undefined) return { sessionNumber };
  const spec = asObject(`${where}.spec`, known.spec);
  if (!Array.isArray(spec.extents)) throw new Error(`${where}.spec.extents is not a list`);
  const decoded: ExportSpec = {
    diskId,
    sessionNumber,
    blockSizeBytes: asCount(`${where}.spec.blockSizeBytes`, spec.blockSizeBytes),
    extents: spec.extents.map((item: unknown, index) => decodeExtent(`${where}.spec.extents.${index}`, item)),
    ...decodeAccess(`${where}.spec`, spec),
  };
  return { sessionNumber, spec: decoded };
}

function decodeExtent(where: string, value: unknown): ExportExtent {
  const extent = asObject(where, value);
  if (extent.target === undefined) return decodeExportDevice(extent);
  const target = asObject(`${where}.target`, extent.target);
  const bytesPerSecond = asCount(`${where}.target.bytesPerSecond`, target.bytesPerSecond);
  return { ...decodeExportDevice(extent), target: { ...decodeExportDevice(target), bytesPerSecond } };
}

function decodeExportDevice(device: Record<string, unknown>): ExportDevice {
  return {
    deviceId: parseDeviceId(asString("deviceId", device.deviceId)),
    hostId: parseHostId(asString("hostId", device.hostId)),
    sizeBytes: asCount("sizeBytes", device.sizeBytes),
    ...(device.offsetBytes !== undefined && { offsetBytes: asCount("offsetBytes", device.offsetBytes) }),
    ...(device.skipBytes !== undefined && { skipBytes: asCount("skipBytes", device.skipBytes) }),
    ...(device.sessionNumber !== undefined && { sessionNumber: asCount("sessionNumber", device.sessionNumber) }),
    blockAddress: asString("blockAddress", device.blockAddress),
    sessionKey: asString("sessionKey", device.sessionKey),
  };
}

function decodeAccess(
  where: string,
  { readOnly, limits, exportKind, revision }: Record<string, unknown>,
): Pick<ExportSpec, "readOnly" | "limits" | "exportKind" | "revision"> {
  if (readOnly !== undefined && readOnly !== true) throw new Error(`${where}.readOnly is not true`);
  if (exportKind !== undefined && exportKind !== "DEVICE" && exportKind !== "NBD")
    throw new Error(`${where}.exportKind is ${JSON.stringify(exportKind)}, which is not a known kind`);
  return {
    ...(readOnly && { readOnly }),
    ...(limits !== undefined && { limits: parseAcceptedIoLimits(limits as IoLimits, `${where}.limits`) }),
    ...(exportKind && { exportKind }),
    ...(revision !== undefined && { revision: asCount(`${where}.revision`, revision) }),
  };
}

function asObject(where: string, value: unknown): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error(`${where} is not an object`);
  return value as Record<string, unknown>;
}

function asString(where: string, value: unknown): string {
  if (typeof value !== "string") throw new Error(`${where} is not a string`);
  return value;
}

function asStrings(where: string, value: unknown): string[] {
  return asList(where, value).map((item, index) => asString(`${where}.${index}`, item));
}

function asList(where: string, value: unknown): unknown[] {
  if (!Array.isArray(value)) throw new Error(`${where} is not a list`);
  return value;
}

function asCount(where: string, value: unknown): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0)
    throw new Error(`${where} is not a whole number of at least 0`);
  return value as number;
}
