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

/** Narrowing of what requests carry. Everything behind this takes the narrow types. */

// Nearly all texts are, and telling takes a fraction of what looking for classes of Unicode does.
const PRINTABLE_ASCII = /^[ -~]*$/;

// Values of this size were never given out by a counter: raising ours to them would use the counter up.
const MAX_COUNTER_VALUE = 2 ** 50;

function invalid(field: string, message: string): InvalidArgumentError {
  return new InvalidArgumentError(message, { about: { field } });
}

/** Where a server listens, as "host:port". */
export function parseAddress(address: string, field = "address"): string {
  parseHostPort(field, address);
  return address;
}

/** One device by id, or all devices on a path of a host; never both. */
export function parseDeviceSelector(request: { hostId: string; deviceId: string; path: string }): DeviceSelector {
  const { hostId, deviceId, path } = request;
  if (deviceId !== "" && path !== "") throw invalid("path", "device_id and path are both given: give one of them");
  if (deviceId !== "") {
    return { deviceId: parseDeviceId(deviceId), hostId: hostId === "" ? undefined : parseHostId(hostId) };
  }
  if (path === "") throw invalid("device_id", "device_id and path are both empty: give one of them");
  return { hostId: parseHostId(hostId), path: parseDevicePath(path) };
}

/** A whole number that may be 0, e.g. an offset. */
export function parseCount(field: string, value: number, max = Number.MAX_SAFE_INTEGER): number {
  if (Number.isSafeInteger(value) && value >= 0 && value <= max) return value;
  throw invalid(field, `${field} is ${value}: it must be a whole number from 0 to ${max}`);
}

/** A generation or session number that an agent reports to have seen. */
export const parseCounterValue = (field: string, value: number): number => parseCount(field, value, MAX_COUNTER_VALUE);

/** What an operator says was truly given: far enough below the highest that agents may report for all that follows. */
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

// A lone half of a surrogate pair would be stored as something else.
function requireWellFormed(field: string, ...texts: readonly string[]): void {
  for (const text of texts) if (/\p{Surrogate}/u.test(text)) throw invalid(field, `${field} holds malformed Unicode`);
}

/** Whose word it is, for those who read of it later. */
export const saidBy = ({ identity }: CallContext): string => formatIdentity(identity);

/** Why an operator says something; may be empty. */
export function parseReason(reason: string, maxLength: number): string {
  if (reason.length > maxLength) throw invalid("reason", `reason is longer than ${maxLength} characters`);
  if (hasControlCharacter(reason)) throw invalid("reason", `reason ${quoted(reason)} holds a control character`);
  return reason;
}

/** Text that an agent gives for people, e.g. an error: shortened and made harmless rather than refused. */
export function plainText(text: string, maxLength: number): string {
  const short = text.slice(0, maxLength);
  if (PRINTABLE_ASCII.test(short)) return short;
  return short.replace(/\p{Surrogate}/gu, "?").replace(/\p{Cc}/gu, " ");
}
