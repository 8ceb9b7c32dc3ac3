import { type BackoffLimits, MIB_BYTES } from "@diskmesh/domain";

/** Limits of a driver's process. A process that exceeds a limit is killed and restarted. */
export interface DriverLimits {
  /** Maximum JavaScript heap. The process with its children may use twice as much plus 128 MiB. */
  readonly maxMemoryMib: number;
  readonly loadTimeoutMs: number;
  /** Time limit of a synchronous method. */
  readonly syncTimeoutMs: number;
  /** Time limit of an asynchronous method. */
  readonly asyncTimeoutMs: number;
  /** Time that a cancelled method gets to end; then the process is killed. */
  readonly cancelGraceMs: number;
  /** Maximum processor time of an event loop turn. */
  readonly maxTurnProcessorMs: number;
  /** Sustained share of a CPU that the process and its children may use. */
  readonly maxProcessorShare: number;
  /** Processor time that the process may use in addition to its share, as a burst. */
  readonly maxProcessorBurstMs: number;
  /** Maximum concurrent method calls; more are refused. */
  readonly maxConcurrentCalls: number;
  readonly maxAnswerBytes: number;
  /** Maximum output to stdout and stderr. */
  readonly maxOutputBytesPerSecond: number;
  /** Maximum log lines of output; further lines are only counted. */
  readonly maxLogLinesPerSecond: number;
  /** Time after the exit in which the pipes are still read. */
  readonly drainMs: number;
  /** Delay between the end of the process and its restart. */
  readonly restart: BackoffLimits;
}

export const DRIVER_LIMITS: DriverLimits = {
  // A driver only controls a vendor's hardware and needs little memory. A host must still serve disks beside 50
  // drivers.
  maxMemoryMib: 128,
  loadTimeoutMs: 30_000,
  // Less than 30 s, the default deadline of calls.
  syncTimeoutMs: 20_000,
  // Firmware updates take tens of minutes.
  asyncTimeoutMs: 3_600_000,
  cancelGraceMs: 5_000,
  maxTurnProcessorMs: 5_000,
  // A driver may use a whole CPU for 60 s: 30 s within its share of 0.5, and 30 s of burst.
  maxProcessorShare: 0.5,
  maxProcessorBurstMs: 30_000,
  maxConcurrentCalls: 64,
  // Fits into a gRPC message of 4 MiB.
  maxAnswerBytes: MIB_BYTES,
  maxOutputBytesPerSecond: MIB_BYTES,
  maxLogLinesPerSecond: 10,
  drainMs: 1_000,
  restart: { minDelayMs: 1_000, maxDelayMs: 60_000 },
};
