import { InvalidArgumentError, MIB_BYTES } from "@diskmesh/domain";

const UNITS_BYTES: Readonly<Record<string, number>> = {
  MiB: MIB_BYTES,
  GiB: 1024 * MIB_BYTES,
  TiB: 1024 ** 2 * MIB_BYTES,
};

/** Parses the option `size` of a volume, such as 10GiB. Returns 0 without one. */
export function requiredBytesOf(size: string | undefined): number {
  if (size === undefined) return 0;
  const [, count, unit = ""] = /^([1-9][0-9]{0,6})(MiB|GiB|TiB)$/.exec(size) ?? [];
  const sizeBytes = Number(count) * (UNITS_BYTES[unit] ?? Number.NaN);
  if (Number.isSafeInteger(sizeBytes)) return sizeBytes;
  throw new InvalidArgumentError(`size ${JSON.stringify(size)} is malformed: give for example 512MiB or 10GiB`);
}
