import {
  AbortedError,
  AlreadyExistsError,
  CancelledError,
  DeviceIoError,
  DomainError,
  DriverError,
  FencedError,
  InvalidArgumentError,
  InvalidStateError,
  NotFoundError,
  NotImplementedError,
  OutdatedError,
  PermissionDeniedError,
  ResourceExhaustedError,
  TimeoutError,
  UnauthenticatedError,
  UnavailableError,
} from "@diskmesh/domain";
import { Metadata, status } from "@grpc/grpc-js";
import { encodeStatusDetails } from "./google-rpc.js";
import { passingCause } from "./passing-causes.js";

/** The `domain` of every ErrorInfo that diskmesh sends. */
export const ERROR_DOMAIN = "diskmesh";

/** Key in ErrorInfo.metadata for the outcome of an UnavailableError when it is not the default. */
export const OUTCOME_KEY = "outcome";

// Trailers are sent as HTTP/2 headers, which peers limit to 8 to 64 KiB in all.
const MAX_MESSAGE_LENGTH = 2048;
const MAX_ABOUT_ENTRIES = 16;
const MAX_ABOUT_LENGTH = 256;

const CODES: readonly (readonly [abstract new (...args: never[]) => DomainError, status])[] = [
  [InvalidArgumentError, status.INVALID_ARGUMENT],
  [NotFoundError, status.NOT_FOUND],
  [AlreadyExistsError, status.ALREADY_EXISTS],
  [InvalidStateError, status.FAILED_PRECONDITION],
  [OutdatedError, status.FAILED_PRECONDITION],
  [PermissionDeniedError, status.PERMISSION_DENIED],
  [UnauthenticatedError, status.UNAUTHENTICATED],
  [ResourceExhaustedError, status.RESOURCE_EXHAUSTED],
  [UnavailableError, status.UNAVAILABLE],
  // The caller's request is valid, and a newer leader can serve it.
  [FencedError, status.UNAVAILABLE],
  [AbortedError, status.ABORTED],
  [TimeoutError, status.DEADLINE_EXCEEDED],
  [CancelledError, status.CANCELLED],
  [NotImplementedError, status.UNIMPLEMENTED],
  // gRPC has no code for failed hardware or a failed vendor driver; the reason tells them from a bug.
  [DeviceIoError, status.INTERNAL],
  [DriverError, status.INTERNAL],
];

export interface GrpcStatus {
  readonly code: status;
  readonly details: string;
  readonly metadata: Metadata;
}

/**
 * Returns the status to send for anything that was thrown. A value that is not of the domain is a shortage or a bug.
 * The text of a bug may hold anything, so the client gets only the request id, under which the log has the rest. Errors
 * that pass never become INTERNAL or UNKNOWN.
 */
export function statusOfError(raised: unknown, requestId: string): GrpcStatus {
  const thrown = raised instanceof DomainError ? raised : passingCause(raised, requestId);
  if (thrown === undefined)
    return {
      code: status.INTERNAL,
      details: `internal error; the server's log has it under request id ${requestId}`,
      metadata: new Metadata(),
    };
  const code =
    CODES.find(([type]) => thrown instanceof type)?.[1] ?? (thrown.retryable ? status.UNAVAILABLE : status.INTERNAL);
  const message = wellFormed(thrown.message, MAX_MESSAGE_LENGTH);
  const metadata = new Metadata();
  const about = aboutOf(thrown);
  const details = encodeStatusDetails(
    {
      code,
      message,
      errorInfo: { reason: thrown.reason, domain: ERROR_DOMAIN, metadata: about },
      retryAfterMs: thrown.retryAfterMs,
    },
    thrown instanceof InvalidArgumentError && about.field !== undefined
      ? { field: about.field, description: wellFormed(message, MAX_ABOUT_LENGTH) }
      : undefined,
  );
  metadata.set("grpc-status-details-bin", Buffer.from(details));
  return { code, details: message, metadata };
}

function aboutOf(error: DomainError): Record<string, string> {
  const about: Record<string, string> = {};
  for (const [key, value] of Object.entries(error.about).slice(0, MAX_ABOUT_ENTRIES))
    about[key] = wellFormed(value, MAX_ABOUT_LENGTH);
  if (error instanceof UnavailableError && error.outcome === "unknown") about[OUTCOME_KEY] = error.outcome;
  return about;
}

// grpc-js percent-encodes the message with encodeURI, which throws on half a surrogate pair.
function wellFormed(text: string, maxLength: number): string {
  return Buffer.from(text.slice(0, maxLength), "utf8").toString("utf8");
}
