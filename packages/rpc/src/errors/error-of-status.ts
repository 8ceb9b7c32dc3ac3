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
  LEADER_ADDRESS,
  NotFoundError,
  NotImplementedError,
  OutdatedError,
  PermissionDeniedError,
  ResourceExhaustedError,
  TimeoutError,
  transportWords,
  UnauthenticatedError,
  UnavailableError,
} from "@diskmesh/domain";
import { type Metadata, status } from "@grpc/grpc-js";
import { decodeStatusDetails, type StatusDetails } from "./google-rpc.js";
import { ERROR_DOMAIN, OUTCOME_KEY } from "./status-of-error.js";

/** A call that did not end with OK. */
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
  // FENCED is missing on purpose: fencing of the server says nothing about this process, which must not step down.
  ABORTED: AbortedError,
  TIMEOUT: TimeoutError,
  CANCELLED: CancelledError,
  NOT_IMPLEMENTED: NotImplementedError,
  DEVICE_IO: DeviceIoError,
  DRIVER: DriverError,
};

/**
 * grpc-js refuses an oversized message with the same status on both sides; if it was the answer, the work was done.
 * Errors sent by diskmesh servers have a reason and are not of this class.
 */
class MessageTooLongError extends ResourceExhaustedError {
  override readonly name = "ResourceExhaustedError";
  override readonly outcome = "unknown" as const;
}

/** Nothing was done, because the server is unreachable or another one leads. Another server may be called instead. */
export class ServedElsewhereError extends UnavailableError {
  override readonly name = "UnavailableError";

  constructor(
    message: string,
    details: ErrorDetails,
    /** Address of the leader; empty when the server did not name one or was not reached. */
    readonly leaderAddress: string,
    /** True when a server answered. */
    readonly answered: boolean,
  ) {
    super(message, details);
  }
}

/**
 * grpc-js reports a stream that the server refused (e.g. because of the connection's age) in one of two ways. Since
 * Node 26 the pending write may fail before the stream closes.
 */
const STREAM_REFUSED = [
  "Stream refused by server",
  "Write error: Stream closed with error code NGHTTP2_REFUSED_STREAM",
];

/** HTTP/2 guarantees that nothing was done and that the same call may be repeated. */
export class StreamRefusedError extends UnavailableError {
  override readonly name = "UnavailableError";
}

/** Classes for answers without a reason of ours: from grpc-js, a proxy, or another implementation. */
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

/** Returns the error to throw for a failed call. Its `outcome` states the known effect. */
export function errorOfStatus(failed: FailedCall): DomainError {
  const answer = answerOf(failed.metadata);
  if (answer?.errorInfo) return errorOfAnswer(failed, answer, answer.errorInfo.reason, answer.errorInfo.metadata);
  const at = { about: { method: failed.method, address: failed.address } };
  const said = failed.code === status.UNAVAILABLE && !failed.sent ? transportWords(failed.details) : failed.details;
  const text = `${failed.method} at ${failed.address}: ${said}`;
  const known = CLASSES_BY_CODE[failed.code];
  if (known) return new known(text, at);
  // UNAVAILABLE: the connection was never established, or was lost with the request on it. INTERNAL, UNKNOWN and
  // DATA_LOSS: a bug or a broken stream, after which anything may have happened.
  if (STREAM_REFUSED.includes(failed.details)) return new StreamRefusedError(text, at);
  if (!failed.sent) return new ServedElsewhereError(text, at, "", false);
  return new UnavailableError(text, { ...at, outcome: "unknown" });
}

function errorOfAnswer(
  failed: FailedCall,
  answer: StatusDetails,
  reason: string,
  metadata: Readonly<Record<string, string>>,
): DomainError {
  // The address of this server's leader is dropped, because it is meaningless to the callers of its caller.
  const { [OUTCOME_KEY]: outcome, [LEADER_ADDRESS]: leaderAddress, ...about } = metadata;
  const details: ErrorDetails = {
    about,
    ...(answer.retryAfterMs === undefined ? {} : { retryAfterMs: answer.retryAfterMs }),
  };
  const known = CLASSES[reason];
  if (known) return new known(failed.details, details);
  // A special case of a general error, e.g. VM_NOT_FOUND of NOT_FOUND, keeps its reason and passes it on.
  const general = failed.code === status.RESOURCE_EXHAUSTED ? ResourceExhaustedError : CLASSES_BY_CODE[failed.code];
  if (general) return Object.defineProperty(new general(failed.details, details), "reason", { value: reason });
  // The server itself reported UNAVAILABLE or FENCED, and it states when its outcome is unknown.
  const said = failed.code === status.UNAVAILABLE && outcome !== "unknown";
  if (said && (leaderAddress !== undefined || reason === FENCED))
    return new ServedElsewhereError(failed.details, details, leaderAddress ?? "", true);
  return new UnavailableError(failed.details, { ...details, outcome: said ? "not_done" : "unknown" });
}

function answerOf(metadata: Metadata): StatusDetails | undefined {
  const [bytes] = metadata.get("grpc-status-details-bin");
  if (!Buffer.isBuffer(bytes)) return undefined;
  try {
    const answer = decodeStatusDetails(bytes);
    return answer.errorInfo?.domain === ERROR_DOMAIN ? answer : undefined;
  } catch {
    // Another implementation's details are ignored; the code and text suffice.
    return undefined;
  }
}
