import { bytesText, type DeviceId, isId, messageOf, parseDevicePath } from "@diskmesh/domain";

/** Pool and device size of files up to a size. The first rule that matches a file's size counts. */
interface PoolRule {
  readonly pool: string;
  readonly minSizeBytes: number;
  readonly maxSizeBytes: number;
  readonly blockSizeBytes: number;
  /** Size in bytes of the devices that the file is cut into, as many as it holds. Undefined: the file is one device. */
  readonly deviceSizeBytes?: number | undefined;
}

/** Selects the files that are devices, and their kind. */
export interface DiscoveryRule {
  /** An absolute path, with `*`, `?`, `[...]` and `{...}` in any of its parts. */
  readonly glob: string;
  /** Prefix of the devices' ids. */
  readonly idPrefix: string;
  readonly maxDevicesPerFile: number;
  readonly pools: readonly PoolRule[];
}

/** A file that a rule's glob matches. */
export interface FoundFile {
  readonly path: string;
  readonly rule: DiscoveryRule;
  readonly sizeBytes: number;
  /** Equal for two names of one file. */
  readonly identity: string;
}

export interface FoundDevice {
  readonly deviceId: string;
  readonly path: string;
  readonly offsetBytes: number;
  readonly sizeBytes: number | undefined;
  readonly blockSizeBytes: number;
  readonly pool: string;
}

export interface Skipped {
  readonly path: string;
  readonly reason: string;
}

/** A file that matches a rule, but that registries would refuse as it is now. */
export interface RefusedFile {
  readonly deviceId: DeviceId;
  readonly path: string;
  readonly reason: string;
}

/** Ids in use, and the paths of known files by file identity. */
export interface Known {
  readonly deviceIds: { has(deviceId: DeviceId): boolean };
  readonly files: ReadonlyMap<string, string>;
  readonly devicesLeft: number;
}

/**
 * Plans the devices of found files. A file that is known under any path gets none. Files that registries would refuse
 * are planned last, so that they take neither ids nor places from usable devices.
 */
export function planDevices(
  found: readonly FoundFile[],
  known: Known,
): {
  readonly devices: readonly FoundDevice[];
  readonly refused: readonly RefusedFile[];
  readonly skipped: readonly Skipped[];
} {
  const devices: FoundDevice[] = [];
  const unregistrable: { readonly file: FoundFile; readonly reason: string }[] = [];
  const skipped: Skipped[] = [];
  const files = new Map(known.files);
  const taken = new Set<string>();
  for (const file of found) {
    const { path, identity } = file;
    const skip = (reason: string) => void skipped.push({ path, reason });
    const other = files.get(identity);
    if (other === path) continue;
    if (other !== undefined) {
      skip(`it is the same file as ${JSON.stringify(other)}`);
      continue;
    }
    const reason = whyUnregistrable(file);
    if (reason !== undefined) {
      unregistrable.push({ file, reason });
      continue;
    }
    const pool = file.rule.pools.find(
      (rule) => file.sizeBytes >= rule.minSizeBytes && file.sizeBytes <= rule.maxSizeBytes,
    );
    if (pool === undefined) {
      skip(`no pool rule of ${JSON.stringify(file.rule.glob)} matches a file of ${bytesText(file.sizeBytes)}`);
      continue;
    }
    const made = devicesOf(file, pool);
    const unfit = made.find(
      ({ deviceId }) => !isId(deviceId) || taken.has(deviceId) || known.deviceIds.has(deviceId as DeviceId),
    );
    if (made.length === 0)
      skip(`it holds ${bytesText(file.sizeBytes)}, less than one device of ${bytesText(pool.deviceSizeBytes ?? 0)}`);
    else if (unfit !== undefined && !isId(unfit.deviceId))
      skip(`its device id would be ${JSON.stringify(unfit.deviceId)}, which is malformed or too long`);
    else if (unfit !== undefined)
      skip(`another file already has its device id ${unfit.deviceId}: give the rule another idPrefix`);
    else if (devices.length + made.length > known.devicesLeft)
      skip("the agent already has the maximum number of devices");
    else {
      files.set(identity, path);
      for (const device of made) taken.add(device.deviceId);
      devices.push(...made);
    }
  }
  const refused: RefusedFile[] = [];
  for (const { file, reason } of unregistrable) {
    const deviceId = deviceIdOf(file);
    const isFree = isId(deviceId) && !taken.has(deviceId) && !known.deviceIds.has(deviceId as DeviceId);
    if (isFree && devices.length + refused.length < known.devicesLeft) {
      taken.add(deviceId);
      refused.push({ deviceId: deviceId as DeviceId, path: file.path, reason });
    } else skipped.push({ path: file.path, reason });
  }
  return { devices, refused, skipped };
}

/** Returns why registries would refuse a device on the file; undefined when they would accept it. */
function whyUnregistrable({ path, sizeBytes }: FoundFile): string | undefined {
  if (sizeBytes > Number.MAX_SAFE_INTEGER)
    return `device file ${JSON.stringify(path)} has ${sizeBytes} bytes, but a device may have at most 2^53 - 1`;
  try {
    parseDevicePath(path);
    return undefined;
  } catch (error) {
    return `the device file cannot be registered: ${messageOf(error)}`;
  }
}

function deviceIdOf({ path, rule }: FoundFile): string {
  const name = path.slice(path.lastIndexOf("/") + 1).replace(/[^A-Za-z0-9_-]/g, "-");
  return `${rule.idPrefix}-${name}`;
}

function devicesOf(file: FoundFile, pool: PoolRule): FoundDevice[] {
  const { path, rule, sizeBytes } = file;
  const deviceId = deviceIdOf(file);
  const common = { path, blockSizeBytes: pool.blockSizeBytes, pool: pool.pool };
  const { deviceSizeBytes } = pool;
  if (deviceSizeBytes === undefined) return [{ ...common, deviceId, offsetBytes: 0, sizeBytes: undefined }];
  const count = Math.min(rule.maxDevicesPerFile, Math.floor(sizeBytes / deviceSizeBytes));
  return Array.from({ length: count }, (_, index) => ({
    ...common,
    deviceId: `${deviceId}-${index + 1}`,
    offsetBytes: index * deviceSizeBytes,
    sizeBytes: deviceSizeBytes,
  }));
}
