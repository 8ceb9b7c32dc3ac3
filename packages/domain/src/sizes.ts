import { InvalidArgumentError } from "./errors.js";
import { quoted } from "./identifiers.js";

export const MIB_BYTES = 1024 * 1024;

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Formats bytes for people, with one decimal unless the number of units is whole. */
export function bytesText(bytes: number): string {
  let [value, unit] = [bytes, 0];
  for (; value >= 1_024 && unit < UNITS.length - 1; unit++) value /= 1_024;
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${UNITS[unit]}`;
}

const FACTORS: Readonly<Record<string, number>> = { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 };

/** Parses a person's size with its unit, such as 64MiB. Throws InvalidArgumentError. */
export function parseSizeText(text: string, field?: string): number {
  const [, number, unit = ""] = /^([1-9][0-9]{0,15})(B|KiB|MiB|GiB|TiB)$/.exec(text) ?? [];
  const sizeBytes = Number(number) * (FACTORS[unit] as number);
  if (Number.isSafeInteger(sizeBytes)) return sizeBytes;
  throw new InvalidArgumentError(
    `size ${quoted(text)} is malformed: give a number with a unit, for example 64MiB, 10GiB or 2TiB`,
    field === undefined ? {} : { about: { field } },
  );
}

/** Describes a changed size to people, with bytes where the units do not show the difference. */
export function sizeChangeText(wasBytes: number, isBytes: number): string {
  const [was, is] = [bytesText(wasBytes), bytesText(isBytes)];
  return was === is ? `was ${wasBytes} bytes, is ${isBytes} bytes` : `was ${was}, is ${is}`;
}

/** Adds sizes in bytes. Returns 2^53 - 1 for a larger sum, because a client's decoder refuses it. */
export function sumBytes(sizesBytes: readonly number[]): number {
  return sizesBytes.reduce((sum, sizeBytes) => Math.min(sum + sizeBytes, Number.MAX_SAFE_INTEGER), 0);
}

/** Parses a positive size in bytes. Sizes above 2^53 - 1 were refused when the message was decoded. */
export function parseSizeBytes(field: string, value: number): number {
  if (!Number.isSafeInteger(value) || value <= 0)
    throw new InvalidArgumentError(`${field} is ${value}: it must be a whole number of bytes from 1 to 2^53 - 1`, {
      about: { field },
    });
  return value;
}
