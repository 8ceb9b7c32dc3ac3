/**
 * Exit codes of a service process, for a supervisor that decides on a restart. Shells add 128 and the signal's number.
 */
export const EXIT_CODES = {
  /** A signal stopped the process cleanly. */
  stopped: 0,
  /**
   * The process cannot start or continue: a dependency is unreachable, in use, corrupt or missing. The last log line
   * names it; a restart may help.
   */
  failed: 1,
  /** The stop was cut short, because it took too long or a second signal arrived. No durable data is lost. */
  cutShort: 3,
  /** An uncaught bug; the last log line has the stack. A restart continues from the durable state. */
  bug: 70,
  /** The config or the command line is wrong: a restart does not help before somebody corrects it. */
  config: 78,
} as const;
