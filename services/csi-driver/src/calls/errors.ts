import { DomainError, UnavailableError } from "@diskmesh/domain";
import { status } from "@grpc/grpc-js";
import { OutOfRangeError } from "../model/capacity.js";

/** Returns the code of an error that diskmesh's own APIs do not answer with. */
export function codeOf(error: unknown): status | undefined {
  return error instanceof OutOfRangeError ? status.OUT_OF_RANGE : undefined;
}

/** Reasons whose code has another meaning in CSI, such as "the node is full", or would not be retried. */
const RETRIED: ReadonlySet<string> = new Set(["QUEUE_FULL", "AGENT_NOT_TOLD"]);

/** Returns the error with which CSI calls answer a director's error. */
export function csiError(error: unknown): unknown {
  if (!(error instanceof DomainError && RETRIED.has(error.reason))) return error;
  return new UnavailableError(error.message, { cause: error, about: error.about, outcome: error.outcome });
}
