/** The signals that a call obeys. */
export interface CallerSignals extends LogSink {
  /** The process ends: the next director fences this one and starts over. */
  readonly stopping: AbortSignal;
  /** The task shall stop. The dispatcher ends calls under way, and says what came of them; none is repeated. */
  readonly stopped: AbortSignal;
  readonly requestId: string;
  readonly taskId: number;
}

/** Takes lines for people. */
export interface LogSink {
  /** "cpi": what a CPI wrote to stderr. "debug": what was asked of CPIs, and what came of it. */
  output(type: "cpi" | "debug", line: string): void;
}
