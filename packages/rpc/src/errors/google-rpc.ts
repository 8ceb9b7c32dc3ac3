import { BadRequest, type BadRequest_FieldViolation, ErrorInfo, RetryInfo, Status } from "@diskmesh/api/google-rpc";
import { durationOf, msOfDuration } from "./duration.js";

/** Details of `grpc-status-details-bin` that diskmesh uses. */
export interface StatusDetails {
  readonly code: number;
  readonly message: string;
  readonly errorInfo?: ErrorInfo | undefined;
  /** Value of google.rpc.RetryInfo.retry_delay. */
  readonly retryAfterMs?: number | undefined;
}

const ERROR_INFO_URL = "type.googleapis.com/google.rpc.ErrorInfo";
const BAD_REQUEST_URL = "type.googleapis.com/google.rpc.BadRequest";
const RETRY_INFO_URL = "type.googleapis.com/google.rpc.RetryInfo";

/** Encodes google.rpc.Status. `violation` names the wrong field of the request and becomes a BadRequest detail. */
export function encodeStatusDetails(
  { code, message, errorInfo, retryAfterMs }: StatusDetails,
  violation?: Pick<BadRequest_FieldViolation, "field" | "description">,
): Uint8Array {
  const details: Status["details"] = [];
  const add = (typeUrl: string, bytes: Uint8Array) => details.push({ typeUrl, value: Buffer.from(bytes) });
  if (errorInfo) add(ERROR_INFO_URL, ErrorInfo.encode(errorInfo).finish());
  if (violation)
    add(BAD_REQUEST_URL, BadRequest.encode(BadRequest.fromPartial({ fieldViolations: [violation] })).finish());
  if (retryAfterMs !== undefined) {
    add(RETRY_INFO_URL, RetryInfo.encode({ retryDelay: durationOf(retryAfterMs) }).finish());
  }
  return Status.encode({ code, message, details }).finish();
}

/** Decodes google.rpc.Status and skips details of other types. Throws when the bytes are no such message. */
export function decodeStatusDetails(bytes: Uint8Array): StatusDetails {
  const { code, message, details } = Status.decode(bytes);
  const bytesOf = (url: string): Uint8Array | undefined => details.find(({ typeUrl }) => typeUrl === url)?.value;
  const errorInfo = bytesOf(ERROR_INFO_URL);
  const retryInfo = bytesOf(RETRY_INFO_URL);
  return {
    code,
    message,
    errorInfo: errorInfo && ErrorInfo.decode(errorInfo),
    retryAfterMs: retryInfo && msOfDuration(RetryInfo.decode(retryInfo).retryDelay),
  };
}
