import { AttachState, Health, HostState } from "@diskmesh/api/registry";
import { messageOf, parseSizeText, parseSpanText, quoted } from "@diskmesh/domain";
import { UsageError } from "./exit-codes.js";

/** Parsers of enum values, sizes and times typed by users. */

export const hostState = (text: string) => named("state", HostState, text);
export const deviceHealth = (text: string) => named("health", Health, text);
export const attachState = (text: string) => named("state", AttachState, text);

/** Returns the value with that name, in any case of letters. */
export function named<Value extends string>(
  what: string,
  values: Readonly<Record<string, Value>>,
  text: string,
): Value {
  const names = Object.keys(values).filter((name) => !/^(UNSPECIFIED|UNRECOGNIZED)$/.test(name));
  const name = text.toUpperCase();
  const value = names.includes(name) ? values[name] : undefined;
  if (value !== undefined) return value;
  throw new UsageError(`${what} ${quoted(text)} is none of ${names.map((one) => one.toLowerCase()).join(", ")}`);
}

/** Parses a size with its unit, such as 64MiB or 10GiB. */
export function sizeBytesOf(text: string): number {
  try {
    return parseSizeText(text);
  } catch (error) {
    throw new UsageError(messageOf(error));
  }
}

const UNIT_SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 };

/** Parses a time span: 90s, 15m, 2h, 7d. */
export function secondsOf(what: string, text: string): number {
  try {
    return parseSpanText(text, what) / 1_000;
  } catch (error) {
    throw new UsageError(messageOf(error));
  }
}

/** Parses an ISO 8601 time or an age: 90s, 15m, 2h, 7d. */
export function timeOf(text: string, nowMs: number): Date {
  const [, number, unit = ""] = /^([0-9]{1,9})([smhd])$/.exec(text) ?? [];
  const time = new Date(number === undefined ? text : nowMs - Number(number) * (UNIT_SECONDS[unit] as number) * 1_000);
  if (!Number.isNaN(time.getTime())) return time;
  throw new UsageError(`time ${quoted(text)} is malformed: give for example 15m, 2h, 7d, or 2026-01-31T12:00:00Z`);
}

export function taskIdOf(text: string): number {
  if (/^[1-9][0-9]{0,14}$/.test(text)) return Number(text);
  throw new UsageError(`${quoted(text)} is not a task id: give a number`);
}

export function countOf(what: string, text: string, most: number): number {
  const count = /^[1-9][0-9]{0,14}$/.test(text) ? Number(text) : Number.NaN;
  if (count <= most) return count;
  throw new UsageError(`${what} ${quoted(text)} is malformed: give a number from 1 to ${most}`);
}
