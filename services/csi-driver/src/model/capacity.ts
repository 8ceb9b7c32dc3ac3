import { InvalidArgumentError, MIB_BYTES } from "@diskmesh/domain";

/** The requested capacity cannot be provided. CSI has the code OUT_OF_RANGE for it. */
export class OutOfRangeError extends InvalidArgumentError {
  override readonly name = "OutOfRangeError";
}

export interface CapacityRange {
  readonly requiredBytes: number;
  readonly limitBytes: number;
}

/** Size of volumes whose request states none. */
const DEFAULT_SIZE_BYTES = 1024 * MIB_BYTES;

/** Returns the size in bytes of a volume to create: whole MiB, the smallest that the range allows. */
export function sizeFor(range: CapacityRange | undefined): number {
  const { requiredBytes, limitBytes } = checked(range);
  const wantedBytes =
    requiredBytes > 0 ? requiredBytes : Math.min(DEFAULT_SIZE_BYTES, limitBytes || DEFAULT_SIZE_BYTES);
  const round = requiredBytes > 0 ? Math.ceil : Math.floor;
  const sizeBytes = round(wantedBytes / MIB_BYTES) * MIB_BYTES;
  if (sizeBytes > 0 && (limitBytes === 0 || sizeBytes <= limitBytes)) return sizeBytes;
  throw new OutOfRangeError(
    `no volume has ${requiredBytes} to ${limitBytes} bytes: sizes are whole MiB (${MIB_BYTES} bytes)`,
  );
}

/** Returns true when a volume of this size satisfies the range. */
export function isInRange(sizeBytes: number, range: CapacityRange | undefined): boolean {
  const { requiredBytes, limitBytes } = checked(range);
  return sizeBytes >= requiredBytes && (limitBytes === 0 || sizeBytes <= limitBytes);
}

function checked(range: CapacityRange = { requiredBytes: 0, limitBytes: 0 }): CapacityRange {
  const { requiredBytes, limitBytes } = range;
  if (requiredBytes < 0 || limitBytes < 0)
    throw new InvalidArgumentError(`capacity_range has ${requiredBytes} to ${limitBytes} bytes: give no negative size`);
  if (limitBytes > 0 && requiredBytes > limitBytes)
    throw new InvalidArgumentError(`capacity_range needs ${requiredBytes} bytes, above its limit ${limitBytes}`);
  return range;
}
