import { type CpiReason, isCpiError } from "@diskmesh/cpi";
import {
  AlreadyExistsError,
  DomainError,
  InvalidArgumentError,
  InvalidStateError,
  messageOf,
  NotFoundError,
  NotImplementedError,
  ResourceExhaustedError,
} from "@diskmesh/domain";

/** Errors by which a CPI, or its dispatcher, says that it did nothing and would do nothing next time either. */
const REFUSALS = [
  AlreadyExistsError,
  InvalidArgumentError,
  InvalidStateError,
  NotFoundError,
  NotImplementedError,
  ResourceExhaustedError,
] as const;

/** A CPI call that failed for good. */
export class CpiCallError extends DomainError {
  override readonly reason = "CPI_CALL";
  override readonly outcome: "not_done" | "unknown";
  /** The CPI itself said no. Its word is about now: whether an earlier call of the same kind got through, it may not know. */
  readonly refused: boolean;

  constructor(method: string, cause: unknown, attempts: { readonly someUnknown: boolean }) {
    super(`CPI ${method} failed: ${messageOf(cause)}`, {
      cause,
      about: cause instanceof DomainError ? cause.about : {},
    });
    this.refused = cause instanceof DomainError && isRefusal(cause);
    const known = cause instanceof DomainError && cause.outcome === "not_done" && !attempts.someUnknown;
    this.outcome = known ? "not_done" : "unknown";
  }

  /** create_vm made nothing, and the CPI says that another try may do better. */
  get mayRetryVm(): boolean {
    const { cause } = this;
    if (!isCpiError(cause, "VM_CREATION_FAILED") || this.outcome !== "not_done") return false;
    return cause.about.ok_to_retry === "true" || cause.retryAfterMs !== undefined;
  }

  /** The CPI does not know the method, or refuses it on purpose. */
  get isNotImplemented(): boolean {
    return this.cause instanceof NotImplementedError;
  }

  /** Returns true for one of the CPI contract's error types. */
  isOf(...reasons: readonly CpiReason[]): boolean {
    return isCpiError(this.cause, ...reasons);
  }
}

/** The call's result; undefined when it failed in a way after which there is nothing left to do. */
export async function tolerate<Result>(
  call: Promise<Result>,
  tolerated: (error: CpiCallError) => boolean,
): Promise<Result | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof CpiCallError && tolerated(error)) return undefined;
    throw error;
  }
}

/**
 * Returns true when a CPI looked at the call and refused it. A call that met a passing limit, such as concurrent calls,
 * or whose CPI cannot be reached, was not looked at.
 */
function isRefusal(cause: DomainError): boolean {
  if (isCpiError(cause, "CPI_UNUSABLE")) return false;
  return cause.outcome === "not_done" && !passes(cause) && REFUSALS.some((known) => cause instanceof known);
}

/** Returns true when the same call may succeed soon. A lack of space counts only when the CPI says when it ends. */
export function passes(error: unknown): boolean {
  if (!(error instanceof DomainError) || !error.retryable) return false;
  return !(error instanceof ResourceExhaustedError) || error.retryAfterMs !== undefined;
}
