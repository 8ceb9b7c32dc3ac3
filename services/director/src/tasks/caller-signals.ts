export interface CallerSignals extends LogSink {
  /** Aborted when the process ends. The next director fences this director and starts the calls over. */
  readonly stopping: AbortSignal;
  /**
   * Aborted when the task must stop. The dispatcher then ends calls under way and reports their outcomes; no call is
   * repeated.
   */
  readonly stopped: AbortSignal;
  readonly requestId: string;
  readonly taskId: number;
}

/** Receives the human-readable output lines of a task. */
export interface LogSink {
  /** "cpi": stderr lines of a CPI. "debug": requests to CPIs and their outcomes. */
  output(type: "cpi" | "debug", line: string): void;
}
