import { InvalidArgumentError } from "./errors.js";
import { visible } from "./visible.js";

/**
 * Types of ids and names. External ids and names become parts of paths, NATS subjects, table keys and log lines.
 * Handlers parse them to these types once; all code behind the handlers takes the narrow types.
 */
declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

export type HostId = Branded<"host_id">;
export type DeviceId = Branded<"device_id">;
export type DiskId = Branded<"disk_id">;

/** Longest id in bytes. Fits into a file name with a suffix, a Unix socket's path and a NATS token. */
export const MAX_ID_LENGTH_BYTES = 64;

// Excludes dots: an id is one NATS token, and never "." or "..".
const ID_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_-]*$/;

/** Longest name chosen by users, e.g. of a deployment or a disk type, in bytes. */
export const MAX_NAME_LENGTH_BYTES = 255;

// Names may contain dots and slashes like BOSH's. They become table keys and text, never paths or subjects.
const NAME_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_.:@/-]*$/;

/**
 * Quotes an external value for an error message or a log line: shortens it and escapes control and format characters.
 */
export function quoted(value: string, maxLength = 80): string {
  const text = visible(JSON.stringify(value.length > maxLength ? value.slice(0, maxLength) : value));
  return value.length > maxLength ? `${text}... (${value.length} characters)` : text;
}

/** Returns the text as one word of a shell's command line. */
export function shellWord(text: string): string {
  return /^[\w.:@/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
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

/** Returns whether a text is an id, which `parseId` accepts. */
export const isId = (value: string): boolean => value.length <= MAX_ID_LENGTH_BYTES && ID_PATTERN.test(value);

/** Parses an external id; `field` is the request's field, for the error. */
export function parseId<Id extends string = string>(field: string, value: string): Id {
  const allowed = "it must start with a letter or digit and hold only letters, digits, '-' and '_'";
  return parseText(field, value, ID_PATTERN, MAX_ID_LENGTH_BYTES, allowed) as Id;
}

export const parseHostId = (value: string, field = "host_id"): HostId => parseId<HostId>(field, value);
export const parseDeviceId = (value: string, field = "device_id"): DeviceId => parseId<DeviceId>(field, value);
export const parseDiskId = (value: string, field = "disk_id"): DiskId => parseId<DiskId>(field, value);

/** Parses a name chosen by users (deployment, disk type, az, disk name). */
export function parseName(field: string, value: string): string {
  const allowed = "it must start with a letter or digit and hold only letters, digits and '_.:@/-'";
  return parseText(field, value, NAME_PATTERN, MAX_NAME_LENGTH_BYTES, allowed);
}

/** Parses an optional name: protobuf's empty string means absent. */
export function parseOptionalName(field: string, value: string): string | undefined {
  return value === "" ? undefined : parseName(field, value);
}

/** Label of a registry's disk with the name by which a director knows the disk. */
export const DISK_NAME_LABEL = "disk_name";
