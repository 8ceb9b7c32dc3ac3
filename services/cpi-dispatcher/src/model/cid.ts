import { InvalidArgumentError, quoted } from "@diskmesh/domain";

const MAX_CID_LENGTH = 255;

// Each CPI chooses its own ids, so anything printable in one piece goes.
const CID_PATTERN = /^[\x21-\x7e]+$/;

/** Narrows the id of a VM or disk in some CPI; the CPI itself may demand more. */
export function parseCid(field: string, value: string): string {
  if (value === "") throw new InvalidArgumentError(`${field} is empty: give one`, { about: { field } });
  if (value.length <= MAX_CID_LENGTH && CID_PATTERN.test(value)) return value;
  throw new InvalidArgumentError(
    `${field} ${quoted(value)} is malformed: it must be at most ${MAX_CID_LENGTH} printable ASCII characters without blanks`,
    { about: { field } },
  );
}
