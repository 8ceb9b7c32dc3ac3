import { type BackoffLimits, MIB_BYTES } from "@diskmesh/domain";

/** Limits of the process of one driver. A process that exceeds one is ended and started again. */
export interface DriverLimits {
  /** Memory of its JavaScript; the process and what it started may take twice as much and 128 MiB. */
  readonly maxMemoryMib: number;
  readonly loadTimeoutMs: number;
  /** Time for a method for which a caller waits. */
  readonly syncTimeoutMs: number;
  /** Time for a method that is a task. */
  readonly asyncTimeoutMs: number;
  /** Time in which a method has to heed that it was cancelled. */
  readonly cancelGraceMs: number;
  /** Processor time of one turn of its event loop. */
  readonly maxTurnProcessorMs: number;
  /** Share of one processor that the process and what it started may use in the long run. */
  readonly maxProcessorShare: number;
  /** Processor time that they may use beyond that share. */
  readonly maxProcessorBurstMs: number;
  /** Calls of its methods at once; more are refused. */
  readonly maxConcurrentCalls: number;
  readonly maxAnswerBytes: number;
  /** On its standard output and error. */
  readonly maxOutputBytesPerSecond: number;
  /** Lines of its output that go into the log; the others are counted. */
  readonly maxLogLinesPerSecond: number;
  /** Time after its exit in which its pipes are still read. */
  readonly drainMs: number;
  /** Between an end of its process and the next start. */
  readonly restart: BackoffLimits;
}

export const DRIVER_LIMITS: DriverLimits = {
  // A driver talks to one vendor's hardware; beside 50 of them a host still has to serve disks.
  maxMemoryMib: 128,
  loadTimeoutMs: 30_000,
  // Below the 30 s after which a call without a deadline ends.
  syncTimeoutMs: 20_000,
  // Firmware updates take tens of minutes.
  asyncTimeoutMs: 3_600_000,
  cancelGraceMs: 5_000,
  maxTurnProcessorMs: 5_000,
  // A whole processor for a minute.
  maxProcessorShare: 0.5,
  maxProcessorBurstMs: 30_000,
  maxConcurrentCalls: 64,
  // Passes in one message of gRPC, which holds 4 MiB.
  maxAnswerBytes: MIB_BYTES,
  maxOutputBytesPerSecond: MIB_BYTES,
  maxLogLinesPerSecond: 10,
  drainMs: 1_000,
  restart: { minDelayMs: 1_000, maxDelayMs: 60_000 },
};
