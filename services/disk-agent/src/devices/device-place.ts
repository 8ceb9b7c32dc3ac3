import { type DeviceId, type FileMarks, fileDifference } from "@diskmesh/domain";
import type { FileFacts } from "./open-file.js";

/** A device as the agent's configuration describes it. */
export interface DeviceConfig {
  readonly deviceId: DeviceId;
  readonly path: string;
  readonly offsetBytes: number;
  /** Undefined: all of the file from the offset on. */
  readonly sizeBytes?: number | undefined;
  readonly blockSizeBytes: number;
  readonly serialNumber: string;
  readonly pool: string;
}

/** The device's length in a file of that size; 0 when it does not fit. */
export function sizeIn(fileSizeBytes: number, config: DeviceConfig): number {
  const { offsetBytes, blockSizeBytes } = config;
  const rest = Math.max(0, fileSizeBytes - offsetBytes);
  const sizeBytes = config.sizeBytes ?? rest - (rest % blockSizeBytes);
  return sizeBytes > rest ? 0 : sizeBytes;
}

export function tooShort(fileSizeBytes: number, { deviceId, offsetBytes, sizeBytes, path }: DeviceConfig): string {
  const needed = sizeBytes === undefined ? `more than ${offsetBytes}` : `${offsetBytes + sizeBytes}`;
  return `device file ${JSON.stringify(path)} is too short for device ${deviceId}: it holds ${fileSizeBytes} bytes, and ${needed} are needed`;
}

export function serialNumberOf(facts: FileFacts | undefined, config: DeviceConfig): string {
  return config.serialNumber || (facts?.serialNumber ?? "");
}

/** How the file contradicts the configuration; undefined when it does not. */
export function misconfigured({ serialNumber }: FileFacts, config: DeviceConfig): string | undefined {
  const { deviceId, serialNumber: configured, path } = config;
  if (configured === "" || serialNumber === "" || configured === serialNumber) return undefined;
  return `device file ${JSON.stringify(path)} has serial number ${JSON.stringify(serialNumber)}, but ${JSON.stringify(configured)} is configured for device ${deviceId}`;
}

/** How the file differs from what was registered, for people; undefined when it does not. */
export function differenceFrom(
  registered: FileMarks & { readonly sizeBytes: number },
  facts: FileFacts,
  config: DeviceConfig,
): string | undefined {
  const what = `device ${config.deviceId}, file ${JSON.stringify(config.path)}, is not what was registered`;
  const sizeBytes = sizeIn(facts.sizeBytes, config);
  // A registry that never learned the size records none.
  if (registered.sizeBytes !== 0 && sizeBytes !== registered.sizeBytes)
    return `${what}: size_bytes was ${registered.sizeBytes}, is ${sizeBytes}`;
  const marks = { serialNumber: serialNumberOf(facts, config), fileIdentity: facts.identity };
  const other = fileDifference(registered, marks);
  return other && `${what}: ${other}`;
}
