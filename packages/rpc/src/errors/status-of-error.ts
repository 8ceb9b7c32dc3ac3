import { DomainError, InvalidArgumentError, REASONS, UnavailableError } from "@diskmesh/domain";
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

/** Retry delay of an UNAVAILABLE error that has none: the minimum time to elect a leader or reconnect. */
const RETRY_UNAVAILABLE_MS = 200;

export interface GrpcStatus {
  readonly code: status;
  readonly details: string;
  readonly metadata: Metadata;
}

/**
 * Returns the status to send for a thrown value. For a bug the client gets only the request id, which finds the details
 * in the log, because the message may contain secrets. Transient errors never become INTERNAL or UNKNOWN.
 */
export function statusOfError(raised: unknown, requestId: string): GrpcStatus {
  const thrown = raised instanceof DomainError ? raised : passingCause(raised, requestId);
  if (thrown === undefined)
    return {
      code: status.INTERNAL,
      details: `internal error; the server's log has it under request id ${requestId}`,
      metadata: new Metadata(),
    };
  const code = status[REASONS[thrown.reason].code];
  const message = wellFormed(thrown.message, MAX_MESSAGE_LENGTH);
  const metadata = new Metadata();
  const about = aboutOf(thrown);
  const details = encodeStatusDetails(
    {
      code,
      message,
      errorInfo: { reason: thrown.reason, domain: ERROR_DOMAIN, metadata: about },
      retryAfterMs: thrown.retryAfterMs ?? (code === status.UNAVAILABLE ? RETRY_UNAVAILABLE_MS : undefined),
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

// grpc-js percent-encodes the message with encodeURI, which throws for an unpaired surrogate.
function wellFormed(text: string, maxLength: number): string {
  return Buffer.from(text.slice(0, maxLength), "utf8").toString("utf8");
}
