import { Status } from "@diskmesh/api/google-rpc";
import {
  AbortedError,
  AlreadyExistsError,
  CancelledError,
  DeviceIoError,
  type DomainError,
  DriverError,
  type ErrorDetails,
  InvalidArgumentError,
  InvalidStateError,
  isReason,
  LEADER_ADDRESS,
  NotFoundError,
  NotImplementedError,
  OutdatedError,
  PermissionDeniedError,
  REASONS,
  ResourceExhaustedError,
  TimeoutError,
  transportMessage,
  UnauthenticatedError,
  UnavailableError,
} from "@diskmesh/domain";
import { Metadata, status } from "@grpc/grpc-js";
import { decodeStatusDetails, type StatusDetails } from "./google-rpc.js";
import { ERROR_DOMAIN, OUTCOME_KEY } from "./status-of-error.js";

/** A call that ended with a status other than OK. */
export interface FailedCall {
  readonly code: status;
  readonly details: string;
  readonly metadata: Metadata;
  /** False only when certainly no byte of the request left this process. */
  readonly sent: boolean;
  /** Path of the method, for the message. */
  readonly method: string;
  readonly address: string;
}

const FENCED = "FENCED";

type ErrorClass = new (message: string, details: ErrorDetails) => DomainError;

const CLASSES: Readonly<Record<string, ErrorClass>> = {
  INVALID_ARGUMENT: InvalidArgumentError,
  NOT_FOUND: NotFoundError,
  ALREADY_EXISTS: AlreadyExistsError,
  INVALID_STATE: InvalidStateError,
  OUTDATED: OutdatedError,
  PERMISSION_DENIED: PermissionDeniedError,
  UNAUTHENTICATED: UnauthenticatedError,
  RESOURCE_EXHAUSTED: ResourceExhaustedError,
  // FENCED is not mapped: a server that was fenced must not make this process step down.
  ABORTED: AbortedError,
  TIMEOUT: TimeoutError,
  CANCELLED: CancelledError,
  NOT_IMPLEMENTED: NotImplementedError,
  DEVICE_IO: DeviceIoError,
  DRIVER: DriverError,
};

/**
 * RESOURCE_EXHAUSTED from grpc-js for a message above the size limit. grpc-js uses this status for requests and answers
 * alike. Too large an answer means that the work is done, so the outcome is unknown. Errors of diskmesh servers have a
 * reason and never become this class.
 */
class MessageTooLongError extends ResourceExhaustedError {
  override readonly name = "ResourceExhaustedError";
  override readonly outcome = "unknown" as const;
}

/**
 * The call had no effect, because the server was unreachable or another server leads. The caller may use another
 * server.
 */
export class ServedElsewhereError extends UnavailableError {
  override readonly name = "UnavailableError";

  constructor(
    message: string,
    details: ErrorDetails,
    /** Address of the leader; empty when the server did not name one or was not reached. */
    readonly leaderAddress: string,
    /** True when the server answered the call. */
    readonly answered: boolean,
  ) {
    super(message, details);
  }
}

/**
 * Texts with which grpc-js reports a stream that the server refused, e.g. because it was closing the connection. Since
 * Node 26 the pending write may fail before the stream closes, which changes the text.
 */
const STREAM_REFUSED = [
  "Stream refused by server",
  "Write error: Stream closed with error code NGHTTP2_REFUSED_STREAM",
];

/** HTTP/2 guarantees that a refused stream had no effect, so the call may be repeated. */
export class StreamRefusedError extends UnavailableError {
  override readonly name = "UnavailableError";
}

/** Classes for statuses without a diskmesh reason: from grpc-js, a proxy, or another implementation. */
const CLASSES_BY_CODE: Partial<Record<status, ErrorClass>> = {
  [status.INVALID_ARGUMENT]: InvalidArgumentError,
  [status.OUT_OF_RANGE]: InvalidArgumentError,
  [status.NOT_FOUND]: NotFoundError,
  [status.ALREADY_EXISTS]: AlreadyExistsError,
  [status.FAILED_PRECONDITION]: InvalidStateError,
  [status.PERMISSION_DENIED]: PermissionDeniedError,
  [status.UNAUTHENTICATED]: UnauthenticatedError,
  [status.RESOURCE_EXHAUSTED]: MessageTooLongError,
  [status.ABORTED]: AbortedError,
  [status.DEADLINE_EXCEEDED]: TimeoutError,
  [status.CANCELLED]: CancelledError,
  [status.UNIMPLEMENTED]: NotImplementedError,
};

/** Text of grpc-js for a deadline, behind which it tells what it spent the time on. */
const LATE = /^Deadline exceeded after ([\d.]+)s.*$/s;

const timeText = (_text: string, seconds: string): string =>
  `no answer within ${Math.round(Number(seconds) * 10) / 10} s`;

/** Returns the error to throw for a failed call. Its `outcome` states the known effect. */
export function errorOfStatus(failed: FailedCall): DomainError {
  const answer = answerOf(failed.metadata);
  if (answer?.errorInfo) return errorOfAnswer(failed, answer, answer.errorInfo.reason, answer.errorInfo.metadata);
  const at = { about: { method: failed.method, address: failed.address } };
  const details =
    failed.code === status.UNAVAILABLE && !failed.sent
      ? transportMessage(failed.details)
      : failed.details.replace(LATE, timeText);
  const text = `${failed.method} at ${failed.address}: ${details}`;
  const known = CLASSES_BY_CODE[failed.code];
  if (known) return new known(text, at);
  // UNAVAILABLE means that the connection was never established or broke during the call. INTERNAL, UNKNOWN and
  // DATA_LOSS mean a bug or a broken stream. Unless the stream was refused or nothing was sent, the effect is unknown.
  if (STREAM_REFUSED.includes(failed.details)) return new StreamRefusedError(text, at);
  if (!failed.sent) return new ServedElsewhereError(text, at, "", false);
  return new UnavailableError(text, { ...at, outcome: "unknown" });
}

/** Returns the error that a message describes, e.g. `Task.error`. */
export function errorOfMessage(
  message: Status,
  about: { readonly method: string; readonly address: string },
): DomainError {
  const metadata = new Metadata();
  metadata.set("grpc-status-details-bin", Buffer.from(Status.encode(message).finish()));
  return errorOfStatus({ code: message.code, details: message.message, metadata, sent: true, ...about });
}

function errorOfAnswer(
  failed: FailedCall,
  answer: StatusDetails,
  reason: string,
  metadata: Readonly<Record<string, string>>,
): DomainError {
  // The leader's address is dropped, because callers of this process cannot use it.
  const { [OUTCOME_KEY]: outcome, [LEADER_ADDRESS]: leaderAddress, ...about } = metadata;
  const details: ErrorDetails = {
    about,
    ...(answer.retryAfterMs === undefined ? {} : { retryAfterMs: answer.retryAfterMs }),
  };
  const known = CLASSES[reason];
  if (known) return new known(failed.details, details);
  // A more specific reason, e.g. VM_NOT_FOUND with NOT_FOUND, is kept.
  const general = failed.code === status.RESOURCE_EXHAUSTED ? ResourceExhaustedError : CLASSES_BY_CODE[failed.code];
  if (general) {
    const error = new general(failed.details, details);
    // A reason of a later version that this table lacks is treated like the class's default.
    const isKnown = isReason(reason) && status[REASONS[reason].code] === failed.code;
    return isKnown ? Object.defineProperty(error, "reason", { value: reason }) : error;
  }
  // The server itself sent the error, and states explicitly when the outcome is unknown.
  const isNotDone = failed.code === status.UNAVAILABLE && outcome !== "unknown";
  if (isNotDone && (leaderAddress !== undefined || reason === FENCED))
    return new ServedElsewhereError(failed.details, details, leaderAddress ?? "", true);
  return new UnavailableError(failed.details, { ...details, outcome: isNotDone ? "not_done" : "unknown" });
}

function answerOf(metadata: Metadata): StatusDetails | undefined {
  const [bytes] = metadata.get("grpc-status-details-bin");
  if (!Buffer.isBuffer(bytes)) return undefined;
  try {
    const answer = decodeStatusDetails(bytes);
    return answer.errorInfo?.domain === ERROR_DOMAIN ? answer : undefined;
  } catch {
    // Undecodable details of other implementations are ignored; code and text suffice.
    return undefined;
  }
}
