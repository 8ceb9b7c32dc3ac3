import type { Reason, ReasonOf, StatusCode } from "./reasons.js";

/**
 * Errors that callers receive. REASONS gives each its gRPC code; packages/rpc converts these classes to gRPC statuses
 * and back.
 *
 * A message says what failed, which thing, and what to do.
 */

/**
 * Effect of a requested change. An object may leave its transitional state, e.g. ATTACHING, only with `done` or
 * `not_done`.
 */
export type Outcome = "done" | "not_done" | "unknown";

export interface ErrorDetails {
  /** Names and values of the affected things, e.g. `{ host_id: "host-1" }`. Never secrets. */
  readonly about?: Readonly<Record<string, string>>;
  /** Time from now after which a retry may succeed, in milliseconds. */
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
}

/**
 * Details with a reason that is more specific than the class's default, so that clients can tell the case apart. The
 * reason must have the gRPC code of the class.
 */
export interface ReasonedDetails<Code extends StatusCode> extends ErrorDetails {
  readonly reason?: ReasonOf<Code>;
}

/** Root of all errors that callers receive. Any other thrown error is a bug and is reported as INTERNAL. */
export abstract class DomainError extends Error {
  /** ErrorInfo.reason on the wire. Programs branch on it; the message may change at any time. */
  abstract readonly reason: Reason;
  /** True when the same request may succeed later without anybody changing it. */
  readonly retryable: boolean = false;
  /** Known effect of the failed request. Most errors occur before any effect. */
  readonly outcome: Exclude<Outcome, "done"> = "not_done";
  readonly about: Readonly<Record<string, string>>;
  readonly retryAfterMs: number | undefined;

  constructor(message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = new.target.name;
    this.about = details.about ?? {};
    this.retryAfterMs = details.retryAfterMs;
  }
}

/** The request is malformed and will fail again: a malformed id, a negative size, a missing field. */
export class InvalidArgumentError extends DomainError {
  override readonly reason = "INVALID_ARGUMENT";
}

/** A thing that the request names does not exist. */
export class NotFoundError extends DomainError {
  override readonly reason: ReasonOf<"NOT_FOUND">;

  constructor(message: string, details: ReasonedDetails<"NOT_FOUND"> = {}) {
    super(message, details);
    this.reason = details.reason ?? "NOT_FOUND";
  }
}

/** A thing with the requested id already exists and has other properties. */
export class AlreadyExistsError extends DomainError {
  override readonly reason = "ALREADY_EXISTS";
}

/** The request is well formed, but the state of the named things forbids it until somebody changes that state. */
export class InvalidStateError extends DomainError {
  override readonly reason: ReasonOf<"FAILED_PRECONDITION">;

  constructor(message: string, details: ReasonedDetails<"FAILED_PRECONDITION"> = {}) {
    super(message, details);
    this.reason = details.reason ?? "INVALID_STATE";
  }
}

/** The caller is authenticated, but its role is not allowed to do this. */
export class PermissionDeniedError extends DomainError {
  override readonly reason = "PERMISSION_DENIED";
}

/** The caller has no certificate that identifies it. */
export class UnauthenticatedError extends DomainError {
  override readonly reason = "UNAUTHENTICATED";
}

/** A limit is reached: space, queue length, in-flight count, message size. The message names the limit. */
export class ResourceExhaustedError extends DomainError {
  override readonly reason: ReasonOf<"RESOURCE_EXHAUSTED">;
  override readonly retryable: boolean = true;

  constructor(message: string, details: ReasonedDetails<"RESOURCE_EXHAUSTED"> = {}) {
    super(message, details);
    this.reason = details.reason ?? "RESOURCE_EXHAUSTED";
  }
}

/** The server, or a dependency of it, cannot be reached or cannot serve now. */
export class UnavailableError extends DomainError {
  override readonly reason: ReasonOf<"UNAVAILABLE">;
  override readonly retryable: boolean = true;
  override readonly outcome: "not_done" | "unknown";

  constructor(
    message: string,
    details: ReasonedDetails<"UNAVAILABLE"> & { readonly outcome?: "not_done" | "unknown" } = {},
  ) {
    super(message, details);
    this.reason = details.reason ?? "UNAVAILABLE";
    this.outcome = details.outcome ?? "not_done";
  }
}

/** The disk has no space for a write. Acknowledged writes are durable; the service continues once there is space. */
export class DiskFullError extends UnavailableError {
  override readonly reason = "DISK_FULL";
}

/**
 * Key in `about` of an UnavailableError with the address of the serving process; the value is empty when the address is
 * unknown.
 */
export const LEADER_ADDRESS = "leader_address";

/** Returns the error for a call that another process can serve, now or soon. The call had no effect. */
export function servedElsewhere(message: string, leaderAddress = ""): UnavailableError {
  return new UnavailableError(message, {
    reason: "NOT_LEADER",
    about: { [LEADER_ADDRESS]: leaderAddress },
    retryAfterMs: RETRY_ELSEWHERE_MS,
  });
}

const RETRY_ELSEWHERE_MS = 200;

/** Another request interfered; the caller starts over from the present state. */
export class AbortedError extends DomainError {
  override readonly reason: ReasonOf<"ABORTED">;
  override readonly retryable: boolean = true;

  constructor(message: string, details: ReasonedDetails<"ABORTED"> = {}) {
    super(message, details);
    this.reason = details.reason ?? "ABORTED";
  }
}

/** An order's stamp or session number is lower than one already seen. The order changed nothing. */
export class OutdatedError extends DomainError {
  override readonly reason = "OUTDATED";
}

/** Another process has claimed a newer generation of the tablet, so this process must stop. */
export class FencedError extends DomainError {
  override readonly reason = "FENCED";
  override readonly retryable: boolean = true;
}

/** The deadline passed. The effect is unknown. */
export class TimeoutError extends DomainError {
  override readonly reason = "TIMEOUT";
  override readonly retryable: boolean = true;
  override readonly outcome = "unknown" as const;
}

/** The caller disconnected. The effect is unknown. */
export class CancelledError extends DomainError {
  override readonly reason = "CANCELLED";
  override readonly outcome = "unknown" as const;
}

/** The requested feature is not offered here, e.g. a CPI method that this CPI lacks. */
export class NotImplementedError extends DomainError {
  override readonly reason: ReasonOf<"UNIMPLEMENTED">;

  constructor(message: string, details: ReasonedDetails<"UNIMPLEMENTED"> = {}) {
    super(message, details);
    this.reason = details.reason ?? "NOT_IMPLEMENTED";
  }
}

/** I/O on a device failed. The message contains the operating system's text. */
export class DeviceIoError extends DomainError {
  override readonly reason = "DEVICE_IO";
  override readonly outcome = "unknown" as const;
}

/** A vendor's driver or its method failed. The text is the driver's own. */
export class DriverError extends DomainError {
  override readonly reason = "DRIVER";
  override readonly outcome = "unknown" as const;
}

/** Returns the message of any thrown value, for a log line or an error that wraps it. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/**
 * Returns whether the error is a final refusal: a retry cannot help, and the request had no effect. An
 * InvalidArgumentError does not count as a refusal.
 */
export function isRefusal(error: unknown): error is DomainError {
  if (!(error instanceof DomainError) || error instanceof InvalidArgumentError) return false;
  return !error.retryable && error.outcome === "not_done";
}
