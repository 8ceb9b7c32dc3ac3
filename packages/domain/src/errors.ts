/**
 * What can go wrong, in words of the domain. Nothing here knows gRPC, HTTP or NATS: packages/rpc maps these classes
 * to statuses and back in one file each.
 *
 * A message says what was wrong, which thing, and what to do.
 */

/** What is known of an effect that was asked for. Only `done` and `not_done` may leave an in-between state. */
export type Outcome = "done" | "not_done" | "unknown";

export interface ErrorDetails {
  /** The things the error is about, as names and values, e.g. `{ host_id: "host-1" }`. Never secrets. */
  readonly about?: Readonly<Record<string, string>>;
  /** When a retry may succeed, in milliseconds from now. */
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
}

/** Root of all errors that a caller is told about. Anything else that is thrown is a bug and is reported as INTERNAL. */
export abstract class DomainError extends Error {
  /** What callers on the wire are told that it is, whatever the words of its message: NOT_FOUND. */
  abstract readonly reason: string;
  /** True when the same request may succeed later without anybody changing it. */
  readonly retryable: boolean = false;
  /** What the failed request is known to have done. Most errors are found before anything is done. */
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

/** The request itself is wrong and will be wrong next time: a malformed id, a negative size, a missing field. */
export class InvalidArgumentError extends DomainError {
  override readonly reason = "INVALID_ARGUMENT";
}

/** A thing that the request names does not exist. */
export class NotFoundError extends DomainError {
  override readonly reason: string = "NOT_FOUND";
}

/** Something else already has that id, with other properties. */
export class AlreadyExistsError extends DomainError {
  override readonly reason = "ALREADY_EXISTS";
}

/** The request is well formed, but the things it names are in a state that forbids it until somebody changes that. */
export class InvalidStateError extends DomainError {
  override readonly reason: string = "INVALID_STATE";
}

/** The caller is known, but its role may not do this. */
export class PermissionDeniedError extends DomainError {
  override readonly reason = "PERMISSION_DENIED";
}

/** The caller has no certificate that says who it is. */
export class UnauthenticatedError extends DomainError {
  override readonly reason = "UNAUTHENTICATED";
}

/** A limit is reached: space, queue length, in-flight count, message size. Names the limit. */
export class ResourceExhaustedError extends DomainError {
  override readonly reason: string = "RESOURCE_EXHAUSTED";
  override readonly retryable: boolean = true;
}

/** The server, or something it needs, cannot be reached or cannot serve now. */
export class UnavailableError extends DomainError {
  override readonly reason: string = "UNAVAILABLE";
  override readonly retryable: boolean = true;
  override readonly outcome: "not_done" | "unknown";

  constructor(message: string, details: ErrorDetails & { readonly outcome?: "not_done" | "unknown" } = {}) {
    super(message, details);
    this.outcome = details.outcome ?? "not_done";
  }
}

/** There is no room for what must be written. What was acknowledged is durable; it goes on once there is room. */
export class DiskFullError extends UnavailableError {
  override readonly reason = "DISK_FULL";
}

/** Key in `about` of an UnavailableError that says who serves instead; empty when that is not known yet. */
export const LEADER_ADDRESS = "leader_address";

/** Refuses a call that another process can serve, now or soon. Nothing was done. */
export function servedElsewhere(message: string, leaderAddress = ""): UnavailableError {
  return new UnavailableError(message, {
    about: { [LEADER_ADDRESS]: leaderAddress },
    retryAfterMs: RETRY_ELSEWHERE_MS,
  });
}

const RETRY_ELSEWHERE_MS = 200;

/** Another request got in between; start over from what is true now. */
export class AbortedError extends DomainError {
  override readonly reason = "ABORTED";
  override readonly retryable: boolean = true;
}

/** An order carries a stamp or session number below one that was seen already. It changed nothing. */
export class OutdatedError extends DomainError {
  override readonly reason = "OUTDATED";
}

/** Another process has claimed a newer generation of the tablet: this one must drop everything. */
export class FencedError extends DomainError {
  override readonly reason = "FENCED";
  override readonly retryable: boolean = true;
}

/** Time ran out. Whether the effect took place is not known. */
export class TimeoutError extends DomainError {
  override readonly reason = "TIMEOUT";
  override readonly retryable: boolean = true;
  override readonly outcome = "unknown" as const;
}

/** The caller went away. Whether the effect took place is not known. */
export class CancelledError extends DomainError {
  override readonly reason = "CANCELLED";
  override readonly outcome = "unknown" as const;
}

/** The thing asked for is not offered here, e.g. a CPI method that this CPI lacks. */
export class NotImplementedError extends DomainError {
  override readonly reason: string = "NOT_IMPLEMENTED";
}

/** A device failed to do I/O. Carries the operating system's text. */
export class DeviceIoError extends DomainError {
  override readonly reason = "DEVICE_IO";
  override readonly outcome = "unknown" as const;
}

/** A vendor's driver failed, or its method did. The text is the driver's own. */
export class DriverError extends DomainError {
  override readonly reason = "DRIVER";
  override readonly outcome = "unknown" as const;
}

/** The message of anything that was thrown, for a log line or an error that wraps it. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** Whether it was decided against, for good. What is malformed was never asked, and what may yet be done was not refused. */
export function isRefusal(error: unknown): error is DomainError {
  if (!(error instanceof DomainError) || error instanceof InvalidArgumentError) return false;
  return !error.retryable && error.outcome === "not_done";
}
