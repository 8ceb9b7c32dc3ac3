import {
  DomainError,
  type ErrorDetails,
  InvalidStateError,
  NotFoundError,
  NotImplementedError,
  ResourceExhaustedError,
  UnavailableError,
} from "@diskmesh/domain";

/** The error types of the CPI contract that callers act on, as they go over the wire: `reason` of an error. */
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
  | "CPI_CONFIG_UNKNOWN"
  | "CPI_CONFIG_INVALID";

/** Returns true for an error of that reason, thrown here or received from a dispatcher. */
export function isCpiError<Reason extends CpiReason>(
  error: unknown,
  ...reasons: readonly Reason[]
): error is DomainError & { readonly reason: Reason } {
  return error instanceof DomainError && reasons.some((reason) => reason === error.reason);
}

/** The CPI knows no such VM. */
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

/** The CPI knows no such disk. */
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

/** A network that the VM is to have does not exist. */
export class NetworkNotFoundError extends NotFoundError {
  override readonly reason = "NETWORK_NOT_FOUND" satisfies CpiReason;
}

/** The disk is not attached to the VM it is to be detached from. */
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

/** There is no room for the disk. */
export class NoDiskSpaceError extends ResourceExhaustedError {
  override readonly reason = "NO_DISK_SPACE" satisfies CpiReason;
}

/** The infrastructure made no VM. `about.ok_to_retry` is "true" when the CPI says that another try may succeed. */
export class VmCreationFailedError extends InvalidStateError {
  override readonly reason = "VM_CREATION_FAILED" satisfies CpiReason;
}

/** The CPI knows the method and refuses it on purpose. */
export class NotSupportedError extends NotImplementedError {
  override readonly reason = "NOT_SUPPORTED" satisfies CpiReason;
}

/** The CPI failed in a way that has no type of its own; `about.cpi_error_type` has what it called it. */
export class CpiFailedError extends InvalidStateError {
  override readonly reason = "CPI_FAILED" satisfies CpiReason;
}

/** The CPI ended without an answer that can be understood: whatever it was asked to do may be done. */
export class InvalidCpiResponseError extends UnavailableError {
  override readonly reason = "INVALID_CPI_RESPONSE" satisfies CpiReason;

  constructor(message: string, details: ErrorDetails = {}) {
    super(message, { ...details, outcome: "unknown" });
  }
}

/**
 * The CPI was not asked: there is none of that name, or its description is wrong, or its executable is not there. That
 * says nothing of the thing that the call was about, nor of what became of earlier calls.
 */
export class CpiUnusableError extends InvalidStateError {
  override readonly reason = "CPI_UNUSABLE" satisfies CpiReason;
}

/** The dispatcher does not have this version of the cpi-config (any more): the director must tell it again. */
export class CpiConfigUnknownError extends InvalidStateError {
  override readonly reason = "CPI_CONFIG_UNKNOWN" satisfies CpiReason;
}

/** A cpi-config that cannot be used. */
export class CpiConfigInvalidError extends InvalidStateError {
  override readonly reason = "CPI_CONFIG_INVALID" satisfies CpiReason;
}
