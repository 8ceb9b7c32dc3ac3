import { InvalidArgumentError } from "./errors.js";
import { isJsonObject } from "./json.js";
import { bytesText, MIB_BYTES } from "./sizes.js";

/** Upper limits of a disk's I/O; 0 for none. */
export interface IoLimits {
  readonly readIops: number;
  readonly writeIops: number;
  readonly readBytesPerSecond: number;
  readonly writeBytesPerSecond: number;
  /** Seconds whose budget an idle disk saves up; 0 for a tenth of a second. */
  readonly burstSeconds: number;
}

/**
 * Least limit of bytes per second. A request may take 32 MiB, and holds up the next one until the limit has made up for
 * it. With a lower limit that takes longer than half a minute, after which a kernel gives up a drive.
 */
const MIN_BYTES_PER_SECOND = MIB_BYTES;
const MAX_RATE = 10 ** 12;
const MAX_BURST_SECONDS = 3_600;

/** The limits by their names in requests and in cloud properties, with the largest value of each. */
const FIELDS = {
  readIops: { name: "read_iops", max: MAX_RATE },
  writeIops: { name: "write_iops", max: MAX_RATE },
  readBytesPerSecond: { name: "read_bytes_per_second", max: MAX_RATE },
  writeBytesPerSecond: { name: "write_bytes_per_second", max: MAX_RATE },
  burstSeconds: { name: "burst_seconds", max: MAX_BURST_SECONDS },
} as const satisfies Record<keyof IoLimits, object>;

const LIMITS = Object.keys(FIELDS) as (keyof IoLimits)[];

/** Parses limits that somebody wants; returns undefined when nothing is limited. Throws InvalidArgumentError. */
export function parseIoLimits(limits: IoLimits | undefined, field = "limits"): IoLimits | undefined {
  const parsed = parseAcceptedIoLimits(limits, field);
  for (const limit of ["readBytesPerSecond", "writeBytesPerSecond"] as const) {
    const rate = parsed?.[limit] ?? 0;
    if (rate === 0 || rate >= MIN_BYTES_PER_SECOND) continue;
    const name = `${field}.${FIELDS[limit].name}`;
    throw new InvalidArgumentError(
      `${name} is ${rate}, with which the disk would seem to hang: give at least ${MIN_BYTES_PER_SECOND} (1 MiB/s), or 0 for no limit`,
      { about: { field: name } },
    );
  }
  return parsed;
}

/**
 * Parses limits that a registry has accepted before; those of 0.1.0 may be lower than what `parseIoLimits` takes. Returns
 * undefined when nothing is limited. Throws InvalidArgumentError.
 */
export function parseAcceptedIoLimits(limits: IoLimits | undefined, field = "limits"): IoLimits | undefined {
  if (limits === undefined) return undefined;
  const parsed = Object.fromEntries(
    LIMITS.map((limit) => [limit, parseLimit(`${field}.${FIELDS[limit].name}`, limits[limit], FIELDS[limit].max)]),
  ) as unknown as IoLimits;
  const { burstSeconds: _, ...rates } = parsed;
  return Object.values(rates).some((rate) => rate > 0) ? parsed : undefined;
}

/** Parses limits in snake_case, as in a disk type's cloud properties and in HTTP requests. An absent limit is 0. */
export function parseIoLimitsJson(limits: unknown, field = "limits"): IoLimits | undefined {
  if (limits === undefined || limits === null) return undefined;
  if (!isJsonObject(limits)) throw new InvalidArgumentError(`${field} must be an object`, { about: { field } });
  const names = new Set<string>(LIMITS.map((limit) => FIELDS[limit].name));
  const unknown = Object.keys(limits).find((name) => !names.has(name));
  if (unknown !== undefined)
    throw new InvalidArgumentError(
      `${field} has the unknown key ${JSON.stringify(unknown)}: known are ${[...names].join(", ")}`,
      {
        about: { field },
      },
    );
  const values = LIMITS.map((limit) => [limit, limits[FIELDS[limit].name] ?? 0]);
  return parseIoLimits(Object.fromEntries(values) as IoLimits, field);
}

function parseLimit(field: string, value: unknown, max: number): number {
  if (Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= max) return value as number;
  throw new InvalidArgumentError(`${field} is ${JSON.stringify(value)}: it must be a whole number from 0 to ${max}`, {
    about: { field },
  });
}

/** Describes the limits to people, with units; empty for none. */
export function ioLimitsText(limits: IoLimits | undefined): string {
  if (limits === undefined) return "";
  const { readIops, writeIops, readBytesPerSecond, writeBytesPerSecond } = limits;
  const each: readonly (readonly [number, string])[] = [
    [readIops, `${readIops} reads/s`],
    [writeIops, `${writeIops} writes/s`],
    [readBytesPerSecond, `${bytesText(readBytesPerSecond)}/s read`],
    [writeBytesPerSecond, `${bytesText(writeBytesPerSecond)}/s written`],
  ];
  return each.flatMap(([limit, text]) => (limit === 0 ? [] : [text])).join(", ");
}

/** Returns whether both limit the same. */
export function sameIoLimits(a: IoLimits | undefined, b: IoLimits | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return LIMITS.every((limit) => a[limit] === b[limit]);
}
