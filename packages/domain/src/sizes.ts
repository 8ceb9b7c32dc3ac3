import { InvalidArgumentError } from "./errors.js";

export const MIB_BYTES = 1024 * 1024;

/** Parses a positive size in bytes. Sizes above 2^53 - 1 were refused when the message was decoded. */
export function parseSizeBytes(field: string, value: number): number {
  if (!Number.isSafeInteger(value) || value <= 0)
    throw new InvalidArgumentError(`${field} is ${value}: it must be a whole number of bytes from 1 to 2^53 - 1`, {
      about: { field },
    });
  return value;
}
