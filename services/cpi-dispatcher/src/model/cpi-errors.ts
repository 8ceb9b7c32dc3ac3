import {
  CpiFailedError,
  DiskNotAttachedError,
  DiskNotFoundError,
  NetworkNotFoundError,
  NoDiskSpaceError,
  NotSupportedError,
  VmCreationFailedError,
  VmNotFoundError,
} from "@diskmesh/cpi";
import { type DomainError, type ErrorDetails, NotImplementedError } from "@diskmesh/domain";
import type { CpiMethod } from "./methods.js";

/** An error in a CPI's answer. */
export interface CpiError {
  readonly type: string;
  readonly message: string;
  readonly okToRetry: boolean;
}

export interface FailedCpiCall {
  readonly cpi: string;
  readonly method: CpiMethod;
  readonly requestId: string;
  readonly vmCid: string;
  readonly diskCid: string;
}

const PREFIX = "Bosh::Clouds::";

/** Delay before a retryable CPI call is repeated. */
const RETRY_AFTER_MS = 1_000;

type MakeError = (message: string, details: ErrorDetails, call: FailedCpiCall) => DomainError;

const KNOWN: Readonly<Record<string, MakeError>> = {
  CpiError: (message, details) => new CpiFailedError(message, details),
  CloudError: (message, details) => new CpiFailedError(message, details),
  NotSupported: (message, details) => new NotSupportedError(message, details),
  NotImplemented: (message, details) => new NotImplementedError(message, details),
  VMNotFound: (message, details, { vmCid }) => new VmNotFoundError(vmCid, message, details),
  NetworkNotFound: (message, details) => new NetworkNotFoundError(message, details),
  NoDiskSpace: (message, details) => new NoDiskSpaceError(message, details),
  DiskNotAttached: (message, details, { vmCid, diskCid }) => new DiskNotAttachedError(diskCid, vmCid, message, details),
  DiskNotFound: (message, details, { diskCid }) => new DiskNotFoundError(diskCid, message, details),
  VMCreationFailed: (message, details) => new VmCreationFailedError(message, details),
};

/** The error types for which `ok_to_retry` is meaningful. */
const RETRIABLE: ReadonlySet<string> = new Set(["NoDiskSpace", "DiskNotAttached", "DiskNotFound", "VMCreationFailed"]);

/** Returns the caller's error for a CPI's error, with its type and message preserved. */
export function errorOfCpi(error: CpiError, call: FailedCpiCall): DomainError {
  const known = isUnknownMethod(error) ? "NotImplemented" : knownName(error.type);
  const wording = known === undefined ? "Unknown CPI error" : "CPI error";
  const message = `${wording} '${error.type}' with message '${error.message}' in '${call.method}' CPI method (CPI request ID: '${call.requestId}')`;
  const okToRetry = known !== undefined && RETRIABLE.has(known) && error.okToRetry;
  const about = {
    cpi: call.cpi,
    cpi_error_type: error.type,
    ok_to_retry: String(okToRetry),
    ...(call.vmCid === "" ? {} : { vm_cid: call.vmCid }),
    ...(call.diskCid === "" ? {} : { disk_cid: call.diskCid }),
  };
  const details = { about, ...(okToRetry ? { retryAfterMs: RETRY_AFTER_MS } : {}) };
  const make = known === undefined ? undefined : KNOWN[known];
  return make ? make(message, details, call) : new CpiFailedError(message, details);
}

function knownName(type: string): string | undefined {
  const name = type.startsWith(PREFIX) ? type.slice(PREFIX.length) : "";
  return Object.hasOwn(KNOWN, name) ? name : undefined;
}

/** Returns true for the errors by which CPIs report an unknown method. */
function isUnknownMethod({ type, message }: CpiError): boolean {
  if (type === "InvalidCall") return message.startsWith("Method is not known, got");
  return type === `${PREFIX}CloudError` && message.startsWith("Invalid Method:");
}
