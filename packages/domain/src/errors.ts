/**
 * Errors of the domain, independent of gRPC, HTTP and NATS: packages/rpc maps these classes to statuses and back in one
 * file each.
 *
 * A message says what was wrong, which thing, and what to do.
 */

/** Known result of a requested effect. Only `done` and `not_done` may leave an in-between state. */
export type Outcome = "done" | "not_done" | "unknown";

export interface ErrorDetails {
  /** Names and values of the affected things, e.g. `{ host_id: "host-1" }`. Never secrets. */
  readonly about?: Readonly<Record<string, string>>;
  /** Time from now after which a retry may succeed, in milliseconds. */
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
}

/** Root of all errors that callers receive. Any other thrown error is a bug and is reported as INTERNAL. */
export abstract class DomainError extends Error {
  /** Error code on the wire, independent of the message: NOT_FOUND. */
  abstract readonly reason: string;
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
  override readonly reason: string = "NOT_FOUND";
}

/** A thing with that id exists, with other properties. */
export class AlreadyExistsError extends DomainError {
  override readonly reason = "ALREADY_EXISTS";
}

/** The request is well formed, but the state of the named things forbids it until somebody changes that state. */
export class InvalidStateError extends DomainError {
  override readonly reason: string = "INVALID_STATE";
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
  override readonly reason: string = "RESOURCE_EXHAUSTED";
  override readonly retryable: boolean = true;
}

/** The server, or a dependency of it, cannot be reached or cannot serve now. */
export class UnavailableError extends DomainError {
  override readonly reason: string = "UNAVAILABLE";
  override readonly retryable: boolean = true;
  override readonly outcome: "not_done" | "unknown";

  constructor(message: string, details: ErrorDetails & { readonly outcome?: "not_done" | "unknown" } = {}) {
    super(message, details);
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
    about: { [LEADER_ADDRESS]: leaderAddress },
    retryAfterMs: RETRY_ELSEWHERE_MS,
  });
}

const RETRY_ELSEWHERE_MS = 200;

/** Another request interfered; the caller starts over from the present state. */
export class AbortedError extends DomainError {
  override readonly reason = "ABORTED";
  override readonly retryable: boolean = true;
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
  override readonly reason: string = "NOT_IMPLEMENTED";
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
 * Returns whether the error is a final refusal. A malformed request and an effect that may still happen are no
 * refusals.
 */
export function isRefusal(error: unknown): error is DomainError {
  if (!(error instanceof DomainError) || error instanceof InvalidArgumentError) return false;
  return !error.retryable && error.outcome === "not_done";
}
