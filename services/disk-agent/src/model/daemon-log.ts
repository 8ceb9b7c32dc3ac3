type FailedOperation = "read" | "write" | "flush" | "discard";

/** Requests that a daemon could not execute because a system call on the disk's devices failed. */
export interface FailedRequests {
  /** The first one, as text. */
  readonly message: string;
  /** True when a drive has failed, and not, for example, a file system without space. */
  readonly isHardware: boolean;
  readonly counts: ReadonlyMap<FailedOperation, number>;
}

/**
 * Trace events by which a daemon logs failed requests. Newer releases of QEMU have another name in the middle. Answers to
 * clients that have not negotiated structured replies have no event of their own, so they are not logged.
 */
export const FAILURES_TRACE = "nbd_co_send_*_error";

const OPERATIONS: ReadonlyMap<string | undefined, FailedOperation> = new Map([
  ["writing to file", "write"],
  ["reading from file", "read"],
  ["flush", "flush"],
  ["discard", "discard"],
]);
const ANSWERED = /error = \d+ \((\w+)\), msg = '(writing to file|reading from file|flush|discard) failed/;
/** QEMU ends the connection of a failed read. */
const DISCONNECTED = /Disconnect client, due to: .*(reading from file) failed: (.+)$/;
/** EIO, ENODATA, EREMOTEIO and EILSEQ, as the C library names them. */
const HARDWARE_ERRORS: ReadonlySet<string | undefined> = new Set([
  "EIO",
  "Input/output error",
  "No data available",
  "Remote I/O error",
  "Invalid or incomplete multibyte or wide character",
]);

/** Returns the failed requests in a part of a daemon's log; undefined for none. */
export function failedRequests(log: string): FailedRequests | undefined {
  let message: string | undefined;
  let isHardware = false;
  const counts = new Map<FailedOperation, number>();
  for (const line of log.split("\n")) {
    const [, error, answered] = ANSWERED.exec(line) ?? [];
    const [, disconnected, text] = DISCONNECTED.exec(line) ?? [];
    const operation = OPERATIONS.get(answered ?? disconnected);
    if (operation === undefined) continue;
    const cause = error ?? text;
    message ??= `${operation} failed: ${cause}`;
    isHardware ||= HARDWARE_ERRORS.has(cause);
    counts.set(operation, (counts.get(operation) ?? 0) + 1);
  }
  return message === undefined ? undefined : { message, isHardware, counts };
}
