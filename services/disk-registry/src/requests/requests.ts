import type { Label as LabelMessage } from "@diskmesh/api/registry";
import {
  formatIdentity,
  hasControlCharacter,
  InvalidArgumentError,
  parseDeviceId,
  parseDevicePath,
  parseHostId,
  parseHostPort,
  quoted,
} from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { DeviceSelector } from "../model/devices/device-selection.js";
import type { Label } from "../model/store/schema.js";

/** Parsers of request fields. All code behind the handlers takes the parsed types. */

// Fast path: nearly all texts match, and the test for Unicode classes is much slower.
const PRINTABLE_ASCII = /^[ -~]*$/;

// Maximum value of a counter in a request. No counter ever issued a larger value, and raising a counter to one would
// exhaust it.
const MAX_COUNTER_VALUE = 2 ** 50;

function invalid(field: string, message: string): InvalidArgumentError {
  return new InvalidArgumentError(message, { about: { field } });
}

/** Parses a server's address, "host:port". */
export function parseAddress(address: string, field = "address"): string {
  parseHostPort(field, address);
  return address;
}

/** Parses one device by id, or all devices on a path of a host; both together are refused. */
export function parseDeviceSelector(request: { hostId: string; deviceId: string; path: string }): DeviceSelector {
  const { hostId, deviceId, path } = request;
  if (deviceId !== "" && path !== "") throw invalid("path", "device_id and path are both given: give one of them");
  if (deviceId !== "") {
    return { deviceId: parseDeviceId(deviceId), hostId: hostId === "" ? undefined : parseHostId(hostId) };
  }
  if (path === "") throw invalid("device_id", "device_id and path are both empty: give one of them");
  return { hostId: parseHostId(hostId), path: parseDevicePath(path) };
}

/** Parses a whole number that may be 0, e.g. an offset. */
export function parseCount(field: string, value: number, max = Number.MAX_SAFE_INTEGER): number {
  if (Number.isSafeInteger(value) && value >= 0 && value <= max) return value;
  throw invalid(field, `${field} is ${value}: it must be a whole number from 0 to ${max}`);
}

/** Parses a generation or session number that an agent reports. */
export const parseCounterValue = (field: string, value: number): number => parseCount(field, value, MAX_COUNTER_VALUE);

/**
 * Parses a number that a registry issued, as an operator states. Accepts at most half of the maximum, which leaves
 * enough values for later numbers.
 */
export const parseTrueNumber = (field: string, value: number): number =>
  parseCount(field, value, MAX_COUNTER_VALUE / 2);

export function requireAtMost(field: string, list: readonly unknown[], max: number): void {
  if (list.length > max) throw invalid(field, `${field} has ${list.length} entries: at most ${max} are allowed`);
}

export function requireUnique(field: string, values: readonly string[]): void {
  const seen = new Set<string>();
  for (const value of values) {
    if (seen.has(value)) throw invalid(field, `${field} names ${quoted(value)} twice`);
    seen.add(value);
  }
}

export function parseLabels(
  labels: readonly LabelMessage[],
  limits: { readonly maxLabelsPerDisk: number; readonly maxLabelLength: number },
): readonly Label[] {
  requireAtMost("labels", labels, limits.maxLabelsPerDisk);
  for (const { name, value } of labels) {
    if (name === "" || hasControlCharacter(name)) {
      throw invalid(
        "labels",
        `the label name ${quoted(name)} is malformed: it must be text without control characters`,
      );
    }
    for (const text of [name, value]) {
      if (text.length <= limits.maxLabelLength) continue;
      throw invalid("labels", `the label ${quoted(name)} is longer than ${limits.maxLabelLength} characters`);
    }
    requireWellFormed("labels", name, value);
  }
  requireUnique(
    "labels",
    labels.map((label) => label.name),
  );
  return labels.map(({ name, value }) => ({ name, value }));
}

// Throws for half of a surrogate pair, which the store would turn into another character.
function requireWellFormed(field: string, ...texts: readonly string[]): void {
  for (const text of texts) if (/\p{Surrogate}/u.test(text)) throw invalid(field, `${field} holds malformed Unicode`);
}

/** Returns the operator's identity as the stored author of an override. */
export const saidBy = ({ identity }: CallContext): string => formatIdentity(identity);

/** Parses an operator's reason; may be empty. */
export function parseReason(reason: string, maxLength: number): string {
  if (reason.length > maxLength) throw invalid("reason", `reason is longer than ${maxLength} characters`);
  if (hasControlCharacter(reason)) throw invalid("reason", `reason ${quoted(reason)} holds a control character`);
  return reason;
}

/** Shortens and sanitises a text from an agent, e.g. an error, instead of refusing it. */
export function plainText(text: string, maxLength: number): string {
  const short = text.slice(0, maxLength);
  if (PRINTABLE_ASCII.test(short)) return short;
  return short.replace(/\p{Surrogate}/gu, "?").replace(/\p{Cc}/gu, " ");
}
