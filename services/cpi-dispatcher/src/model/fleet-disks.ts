import {
  DISK_NAME_LABEL,
  type DiskId,
  InvalidArgumentError,
  type IoLimits,
  type JsonObject,
  MIB_BYTES,
  parseDiskId,
  parseIoLimitsJson,
  parseName,
  parseSizeBytes,
} from "@diskmesh/domain";

export interface FleetDiskProperties {
  /** Empty for the registry's default pool. */
  readonly pool: string;
  readonly spreadRacks: boolean;
  readonly limits: IoLimits | undefined;
  /** Empty when the host's agent chooses. */
  readonly exportKind: "" | "device" | "nbd";
  /** Empty for the registry's default, which is to keep the disk where it is. */
  readonly onHostSilence: "" | "keep" | "fence";
  /** The name of the disk in the director. */
  readonly labels: readonly { readonly name: string; readonly value: string }[];
}

/** Parses the fleet CPI's properties. Other properties are ignored, as in all CPIs. */
export function parseFleetDiskProperties(properties: JsonObject): FleetDiskProperties {
  const { pool = "", spread_racks: spreadRacks = false, export: exportKind = "" } = properties;
  const { on_host_silence: onHostSilence = "", name } = properties;
  if (typeof pool !== "string") throw wrongProperty("pool", "the name of a device pool");
  if (typeof spreadRacks !== "boolean") throw wrongProperty("spread_racks", "true or false");
  if (exportKind !== "" && exportKind !== "device" && exportKind !== "nbd")
    throw wrongProperty("export", '"device" or "nbd"');
  if (onHostSilence !== "" && onHostSilence !== "keep" && onHostSilence !== "fence")
    throw wrongProperty("on_host_silence", '"keep" or "fence"');
  const limits = parseIoLimitsJson(properties.limits, "cloud_properties.limits");
  const parsedPool = pool === "" ? "" : parseName("cloud_properties.pool", pool);
  const labels = typeof name === "string" ? [{ name: DISK_NAME_LABEL, value: name }] : [];
  return { pool: parsedPool, spreadRacks, limits, exportKind, onHostSilence, labels };
}

export function sizeBytesOf(sizeMib: number): number {
  if (!Number.isSafeInteger(sizeMib) || sizeMib <= 0)
    throw new InvalidArgumentError(`size_mib is ${sizeMib}: it must be a whole number of MiB above 0`, {
      about: { field: "size_mib" },
    });
  return parseSizeBytes("size_mib in bytes", sizeMib * MIB_BYTES);
}

/** Derives the disk's id from the token, so that the same token finds the same disk. */
export const diskIdOf = (token: string): DiskId => parseDiskId(`disk-${token}`, "disk id made of the token");

/** Returns metadata as the registry's labels, sorted by name. Values other than strings become JSON. */
export function labelsOf(metadata: JsonObject): { name: string; value: string }[] {
  return Object.entries(metadata)
    .map(([name, value]) => ({ name, value: typeof value === "string" ? value : JSON.stringify(value) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function wrongProperty(name: string, expected: string): Error {
  return new InvalidArgumentError(`cloud_properties.${name} must be ${expected}`, {
    about: { field: `cloud_properties.${name}` },
  });
}
