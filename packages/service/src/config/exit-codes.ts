/** Why a service process ended, for whoever decides whether to start it again. Shells add 128 and the signal's number. */
export const EXIT_CODES = {
  /** It was told to stop, and has stopped cleanly. */
  stopped: 0,
  /** It cannot start or go on: what it needs is away, in use, torn or gone. Its last line says which; a restart may help. */
  failed: 1,
  /** It was told to stop and was cut short, because the stop took too long or by a second signal. Nothing that is durable is lost. */
  cutShort: 3,
  /** A bug that nobody caught; its last line has the stack. A restart goes on from what is durable. */
  bug: 70,
  /** Its config, or what it was called with, is wrong: no restart helps before somebody mends it. */
  config: 78,
} as const;
