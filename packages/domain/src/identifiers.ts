import { InvalidArgumentError } from "./errors.js";
import { visible } from "./visible.js";

/**
 * Ids and names come from outside and become parts of paths, NATS subjects, table keys and log lines. They are narrowed
 * to these types once, at the edge; everything behind the edge takes the narrow type.
 */
declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

export type HostId = Branded<"host_id">;
export type DeviceId = Branded<"device_id">;
export type DiskId = Branded<"disk_id">;

/** Longest id in bytes. Short enough for a file name with a suffix, a Unix socket's path and a NATS token. */
export const MAX_ID_LENGTH_BYTES = 64;

// No dot: an id is one NATS token, and never "." or "..".
const ID_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_-]*$/;

/** Longest name that users choose, e.g. of a deployment or a disk pool, in bytes. */
export const MAX_NAME_LENGTH_BYTES = 255;

// Names may hold dots and slashes where BOSH's do; they become table keys and text, never paths or subjects.
const NAME_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_.:@/-]*$/;

/** A value from outside, shortened and with control and format characters escaped, fit for an error message or a log line. */
export function quoted(value: string, maxLength = 80): string {
  const text = visible(JSON.stringify(value.length > maxLength ? value.slice(0, maxLength) : value));
  return value.length > maxLength ? `${text}... (${value.length} characters)` : text;
}

function parseText(field: string, value: string, pattern: RegExp, maxLength: number, allowed: string): string {
  if (value === "") throw new InvalidArgumentError(`${field} is empty: give one`, { about: { field } });
  if (value.length > maxLength)
    throw new InvalidArgumentError(`${field} ${quoted(value)} is longer than ${maxLength} characters`, {
      about: { field },
    });
  if (!pattern.test(value))
    throw new InvalidArgumentError(`${field} ${quoted(value)} is malformed: ${allowed}`, { about: { field } });
  return value;
}

/** Narrows an id from outside; `field` is its name in the request, for the error. */
export function parseId<Id extends string = string>(field: string, value: string): Id {
  const allowed = "it must start with a letter or digit and hold only letters, digits, '-' and '_'";
  return parseText(field, value, ID_PATTERN, MAX_ID_LENGTH_BYTES, allowed) as Id;
}

export const parseHostId = (value: string, field = "host_id"): HostId => parseId<HostId>(field, value);
export const parseDeviceId = (value: string, field = "device_id"): DeviceId => parseId<DeviceId>(field, value);
export const parseDiskId = (value: string, field = "disk_id"): DiskId => parseId<DiskId>(field, value);

/** Narrows a name that users choose (deployment, disk pool, az, disk name). */
export function parseName(field: string, value: string): string {
  const allowed = "it must start with a letter or digit and hold only letters, digits and '_.:@/-'";
  return parseText(field, value, NAME_PATTERN, MAX_NAME_LENGTH_BYTES, allowed);
}

/** Narrows an optional name: the empty string of protobuf means absent. */
export function parseOptionalName(field: string, value: string): string | undefined {
  return value === "" ? undefined : parseName(field, value);
}
