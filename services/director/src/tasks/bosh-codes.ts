import { DomainError } from "@diskmesh/domain";

/** BOSH's error codes; 100 is BOSH's generic code. */
export const CODES = {
  any: 100,
  taskNotFound: 10_000,
  taskCancelled: 10_001,
  invalidType: 40_000,
  missingField: 40_001,
  belowMinimum: 40_002,
  invalidValue: 40_005,
  badStemcell: 50_000,
  stemcellWithoutImage: 50_001,
  stemcellNotFound: 50_003,
  stemcellInUse: 50_004,
  stemcellDigest: 50_007,
  stemcellNotTaken: 50_008,
  deploymentNotFound: 70_000,
  instanceNotFound: 70_001,
  badInstanceIndex: 70_002,
  invalidContextId: 70_010,
  badManifest: 440_001,
  badConfig: 440_010,
  configNotFound: 440_012,
  diskInUse: 520_000,
  unauthorized: 600_000,
  invalidJson: 710_001,
} as const;

const codes = new WeakMap<Error, number>();

/** Attaches a BOSH error code to the error and returns the error. Only BOSH's clients receive the code. */
export function coded<E extends DomainError>(code: number, error: E): E {
  codes.set(error, code);
  return error;
}

/** Returns the attached BOSH error code; undefined for none. */
export function codeOf(error: unknown): number | undefined {
  return error instanceof DomainError ? codes.get(error) : undefined;
}
