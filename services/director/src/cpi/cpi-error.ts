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
  override readonly name = "CpiCallError";
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
    if (!this.isOf("VmCreationFailedError") || this.outcome !== "not_done") return false;
    const cause = this.cause as DomainError;
    return cause.about.ok_to_retry === "true" || cause.retryAfterMs !== undefined;
  }

  /** Whether it is one of the CPI contract's error types, e.g. "DiskNotAttachedError". */
  isOf(...types: readonly string[]): boolean {
    return this.cause instanceof DomainError && types.includes(this.cause.name);
  }
}

/** The dispatcher does not know the cpi-config that the call relies on: it was restarted, or not told yet. */
export function isConfigUnknown(error: unknown): boolean {
  return error instanceof DomainError && error.name === "CpiConfigUnknownError";
}

/** A limit that passes, such as one on calls, was met before anybody looked; and so was a CPI that cannot be asked. */
function isRefusal(cause: DomainError): boolean {
  if (cause.name === "CpiUnusableError") return false;
  return cause.outcome === "not_done" && !passes(cause) && REFUSALS.some((known) => cause instanceof known);
}

/** Whether the same call may succeed soon. A lack of space does not pass by itself, unless the CPI says when. */
export function passes(error: unknown): boolean {
  if (!(error instanceof DomainError) || !error.retryable) return false;
  return !(error instanceof ResourceExhaustedError) || error.retryAfterMs !== undefined;
}
