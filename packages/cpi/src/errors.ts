import {
  DomainError,
  type ErrorDetails,
  InvalidStateError,
  NotFoundError,
  NotImplementedError,
  ResourceExhaustedError,
  UnavailableError,
} from "@diskmesh/domain";

/** CPI error types that callers act on; `reason` of the error on the wire. */
export type CpiReason =
  | "VM_NOT_FOUND"
  | "DISK_NOT_FOUND"
  | "NETWORK_NOT_FOUND"
  | "DISK_NOT_ATTACHED"
  | "NO_DISK_SPACE"
  | "VM_CREATION_FAILED"
  | "NOT_SUPPORTED"
  | "CPI_FAILED"
  | "INVALID_CPI_RESPONSE"
  | "CPI_UNUSABLE"
  | "POSSIBLY_ELSEWHERE"
  | "CPI_CONFIG_UNKNOWN"
  | "CPI_CONFIG_INVALID";

/** Returns true for an error with this reason, thrown locally or received from a dispatcher. */
export function isCpiError<Reason extends CpiReason>(
  error: unknown,
  ...reasons: readonly Reason[]
): error is DomainError & { readonly reason: Reason } {
  return error instanceof DomainError && reasons.some((reason) => reason === error.reason);
}

/** The CPI knows no VM with this CID. */
export class VmNotFoundError extends NotFoundError {
  override readonly reason = "VM_NOT_FOUND" satisfies CpiReason;

  constructor(
    vmCid: string,
    message = `there is no VM ${vmCid}`,
    details: ErrorDetails = { about: { vm_cid: vmCid } },
  ) {
    super(message, details);
  }
}

/** The CPI knows no disk with this CID. */
export class DiskNotFoundError extends NotFoundError {
  override readonly reason = "DISK_NOT_FOUND" satisfies CpiReason;

  constructor(
    diskCid: string,
    message = `there is no disk ${diskCid}`,
    details: ErrorDetails = { about: { disk_cid: diskCid } },
  ) {
    super(message, details);
  }
}

/** A network in the request for a VM does not exist. */
export class NetworkNotFoundError extends NotFoundError {
  override readonly reason = "NETWORK_NOT_FOUND" satisfies CpiReason;
}

/** The disk is not attached to the VM from which it should be detached. */
export class DiskNotAttachedError extends InvalidStateError {
  override readonly reason = "DISK_NOT_ATTACHED" satisfies CpiReason;

  constructor(
    diskCid: string,
    vmCid: string,
    message = `disk ${diskCid} is not attached to VM ${vmCid}`,
    details: ErrorDetails = { about: { disk_cid: diskCid, vm_cid: vmCid } },
  ) {
    super(message, details);
  }
}

/** The infrastructure has no space for the disk. */
export class NoDiskSpaceError extends ResourceExhaustedError {
  override readonly reason = "NO_DISK_SPACE" satisfies CpiReason;
}

/** The infrastructure created no VM. `about.ok_to_retry` is "true" when the CPI says that a retry may succeed. */
export class VmCreationFailedError extends InvalidStateError {
  override readonly reason = "VM_CREATION_FAILED" satisfies CpiReason;
}

/** The CPI has the method but refuses it for this request. */
export class NotSupportedError extends NotImplementedError {
  override readonly reason = "NOT_SUPPORTED" satisfies CpiReason;
}

/** The CPI failed with an error type that has no class here; `about.cpi_error_type` is the CPI's name of the type. */
export class CpiFailedError extends InvalidStateError {
  override readonly reason = "CPI_FAILED" satisfies CpiReason;
}

/** The CPI ended without a valid response, so the effect of the call is unknown. */
export class InvalidCpiResponseError extends UnavailableError {
  override readonly reason = "INVALID_CPI_RESPONSE" satisfies CpiReason;

  constructor(message: string, details: ErrorDetails = {}) {
    super(message, { ...details, outcome: "unknown" });
  }
}

/**
 * The CPI was not called: no CPI has that name, its config is invalid, or its executable is missing. The error says
 * nothing about the object in question or the outcome of earlier calls.
 */
export class CpiUnusableError extends InvalidStateError {
  override readonly reason = "CPI_UNUSABLE" satisfies CpiReason;
}

/**
 * The CPI does not have the object to delete, and it is unknown which other CPI has it, if any. Nothing was deleted,
 * except perhaps by a CPI that cannot tell whether it has the object.
 */
export class PossiblyElsewhereError extends InvalidStateError {
  override readonly reason = "POSSIBLY_ELSEWHERE" satisfies CpiReason;
}

/** The dispatcher does not have this version of the cpi-config; the director must send it again. */
export class CpiConfigUnknownError extends InvalidStateError {
  override readonly reason = "CPI_CONFIG_UNKNOWN" satisfies CpiReason;
}

/** The dispatcher cannot use the cpi-config; the message names the fault. */
export class CpiConfigInvalidError extends InvalidStateError {
  override readonly reason = "CPI_CONFIG_INVALID" satisfies CpiReason;
}

/** Reasons of the errors by which a CPI denies to have an object. BOSH's contract has none for snapshots. */
const DENIALS = {
  vm: ["VM_NOT_FOUND"],
  disk: ["DISK_NOT_FOUND"],
  snapshot: ["DISK_NOT_FOUND", "NOT_FOUND"],
} as const;

/** Returns true for the error of a CPI that does not have the VM, disk or snapshot. */
export function isDenial(kind: keyof typeof DENIALS, error: unknown): boolean {
  const denials: readonly string[] = DENIALS[kind];
  return error instanceof DomainError && denials.includes(error.reason);
}
