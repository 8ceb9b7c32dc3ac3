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

/** Errors with which a CPI or its dispatcher reports that it did nothing and that a retry would fail too. */
const REFUSALS = [
  AlreadyExistsError,
  InvalidArgumentError,
  InvalidStateError,
  NotFoundError,
  NotImplementedError,
  ResourceExhaustedError,
] as const;

/** The final failure of a CPI call. */
export class CpiCallError extends DomainError {
  override readonly reason = "CPI_CALL";
  override readonly outcome: "not_done" | "unknown";
  /**
   * True when the CPI itself refused the call. The refusal describes the present only: an earlier attempt may still
   * have succeeded.
   */
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

  /** True when create_vm created nothing and the CPI reports that a retry may succeed. */
  get mayRetryVm(): boolean {
    const { cause } = this;
    if (!isCpiError(cause, "VM_CREATION_FAILED") || this.outcome !== "not_done") return false;
    return cause.about.ok_to_retry === "true" || cause.retryAfterMs !== undefined;
  }

  /** True when the CPI does not know the method or refuses it on purpose. */
  get isNotImplemented(): boolean {
    return this.cause instanceof NotImplementedError;
  }

  /** Returns true for an error type of the CPI contract. */
  isOf(...reasons: readonly CpiReason[]): boolean {
    return isCpiError(this.cause, ...reasons);
  }
}

/** Returns the result of the call; undefined when the call failed with a tolerated error. */
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
 * Returns true when a CPI processed the call and refused it. Transient limits, such as the number of concurrent calls,
 * and unreachable CPIs do not count.
 */
function isRefusal(cause: DomainError): boolean {
  if (isCpiError(cause, "CPI_UNUSABLE")) return false;
  return cause.outcome === "not_done" && !passes(cause) && REFUSALS.some((known) => cause instanceof known);
}

/** Returns true when the same call may succeed soon. A lack of space counts only when the CPI reports when to retry. */
export function passes(error: unknown): boolean {
  if (!(error instanceof DomainError) || !error.retryable) return false;
  return !(error instanceof ResourceExhaustedError) || error.retryAfterMs !== undefined;
}

/** Returns true when a CPI answered something invalid and would probably answer the same again. */
export function isLasting(error: unknown): boolean {
  return isCpiError(error, "INVALID_CPI_RESPONSE") && error.about.ok_to_retry === "false";
}
