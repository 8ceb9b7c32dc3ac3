import {
  bytesText,
  type DeviceId,
  type FileMarks,
  fileDifference,
  InvalidArgumentError,
  isKnownSame,
  sizeChangeText,
} from "@diskmesh/domain";
import type { DeviceFailure } from "../files/device-file.js";
import type { FileFacts } from "../files/open-file.js";
import type { RememberedIdentity } from "../model/memory.js";
import type { DeviceProblem } from "./device-problem.js";

/** A device as the agent's configuration describes it. */
export interface DeviceConfig {
  readonly deviceId: DeviceId;
  readonly path: string;
  readonly offsetBytes: number;
  /** Size in bytes; undefined: from the offset to the end of the file. */
  readonly sizeBytes?: number | undefined;
  readonly blockSizeBytes: number;
  /** Serial number that the kernel must report if it reports any. It does not identify the device by itself. */
  readonly serialNumber: string;
  readonly pool: string;
}

/**
 * Returns the device's length in a file of that size; 0 when the device does not fit, or is larger than a registry
 * accepts.
 */
export function sizeIn(fileSizeBytes: number, config: DeviceConfig): number {
  const { offsetBytes, blockSizeBytes } = config;
  const rest = Math.max(0, fileSizeBytes - offsetBytes);
  const sizeBytes = config.sizeBytes ?? rest - (rest % blockSizeBytes);
  return sizeBytes > Math.min(rest, Number.MAX_SAFE_INTEGER) ? 0 : sizeBytes;
}

export function tooShort(fileSizeBytes: number, { deviceId, offsetBytes, sizeBytes, path }: DeviceConfig): string {
  if (fileSizeBytes > Number.MAX_SAFE_INTEGER)
    return `device file ${JSON.stringify(path)} is too long for device ${deviceId}: it has ${fileSizeBytes} bytes, but a device may have at most 2^53 - 1: give its sizeBytes`;
  const needed = sizeBytes === undefined ? `more than ${bytesText(offsetBytes)}` : bytesText(offsetBytes + sizeBytes);
  return `device file ${JSON.stringify(path)} is too short for device ${deviceId}: it has ${bytesText(fileSizeBytes)}, but ${needed} are needed`;
}

/** Returns why the file must not be held for a device with the recorded identity; undefined when it may be held. */
export function whyUnfit(
  facts: FileFacts,
  config: DeviceConfig,
  recorded: RememberedIdentity | undefined,
): DeviceFailure | undefined {
  if (sizeIn(facts.sizeBytes, config) === 0) {
    const outcome = recorded?.sizeBytes ? "device_changed" : "io_error";
    return { outcome, message: tooShort(facts.sizeBytes, config) };
  }
  const difference = misconfigured(facts, config) ?? (recorded && differenceFrom(recorded, facts, config));
  return difference === undefined ? undefined : { outcome: "device_changed", message: difference };
}

/** Returns how the file contradicts the configuration; undefined when it agrees. */
function misconfigured({ serialNumber }: FileFacts, config: DeviceConfig): string | undefined {
  const { deviceId, serialNumber: configured, path } = config;
  if (configured === "" || serialNumber === "" || configured === serialNumber) return undefined;
  return `device file ${JSON.stringify(path)} has serial number ${JSON.stringify(serialNumber)}, but ${JSON.stringify(configured)} is configured for device ${deviceId}`;
}

/**
 * Returns how the file differs from the registry's record, as text; undefined when it is proven to be the same file.
 * Growth is no difference, because the recorded bytes are still there.
 */
export function differenceFrom(
  registered: RememberedIdentity,
  facts: FileFacts,
  config: DeviceConfig,
): string | undefined {
  const what = `device ${config.deviceId}, file ${JSON.stringify(config.path)}, differs from the registered device`;
  const { offsetBytes, blockSizeBytes } = config;
  if (offsetBytes !== registered.offsetBytes)
    return `${what}: offset_bytes was ${registered.offsetBytes}, is ${offsetBytes}`;
  if (blockSizeBytes !== registered.blockSizeBytes)
    return `${what}: block_size_bytes was ${registered.blockSizeBytes}, is ${blockSizeBytes}`;
  const sizeBytes = sizeIn(facts.sizeBytes, config);
  if (sizeBytes < registered.sizeBytes) return `${what}: its size ${sizeChangeText(registered.sizeBytes, sizeBytes)}`;
  const marks = marksOf(facts);
  const other = fileDifference(registered, marks);
  if (other !== undefined) return `${what}: ${other}`;
  const isMarked = registered.serialNumber !== "" || registered.fileIdentity !== "";
  if (!isMarked || isKnownSame(registered, marks)) return undefined;
  return `${what}: the file or drive cannot be identified as the same`;
}

/** Returns the advice for a file that has grown beyond the device's recorded size; undefined for other files. */
export function growthOf(
  config: DeviceConfig,
  recordedBytes: number,
  seen: FileFacts | undefined,
): DeviceProblem | undefined {
  const { deviceId, path } = config;
  const sizeBytes = seen ? sizeIn(seen.sizeBytes, config) : 0;
  if (sizeBytes <= recordedBytes) return undefined;
  const message = `device ${deviceId}, file ${JSON.stringify(path)}, has grown from ${bytesText(recordedBytes)} to ${bytesText(sizeBytes)}: its data is unchanged, and AddDevice adds the new space once no disk is on the device`;
  return { level: "WARNING", message };
}

/**
 * Returns why a file must not be held that the registry knows nothing of: it may carry the label of another device, which
 * the next registration tells. Returns undefined when the registry knows a file there.
 */
export function whyUnseen(registered: RememberedIdentity, { deviceId, path }: DeviceConfig): string | undefined {
  if (registered.serialNumber !== "" || registered.fileIdentity !== "") return undefined;
  return `device ${deviceId}, file ${JSON.stringify(path)}, is not registered yet with what is there: the agent does that by itself`;
}

function marksOf({ serialNumber, identity }: FileFacts): FileMarks {
  return { serialNumber, fileIdentity: identity };
}

/** Throws InvalidArgumentError unless the I/O lies within the device. */
export function requireInside(
  what: string,
  offsetBytes: number,
  lengthBytes: number,
  { id, sizeBytes }: { readonly id: DeviceId; readonly sizeBytes: number },
): void {
  const inside =
    Number.isSafeInteger(offsetBytes) && offsetBytes >= 0 && lengthBytes >= 0 && offsetBytes + lengthBytes <= sizeBytes;
  if (!inside)
    throw new InvalidArgumentError(
      `${what} of ${lengthBytes} bytes at ${offsetBytes} is outside device ${id} of ${sizeBytes} bytes`,
      { about: { device_id: id } },
    );
}
