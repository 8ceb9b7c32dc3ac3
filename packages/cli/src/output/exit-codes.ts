import { DomainError } from "@diskmesh/domain";

/** The exit codes of the command, for scripts. */
export const EXIT_CODES = {
  done: 0,
  /** Refused or failed permanently; a repetition fails again. */
  failed: 1,
  /** The command line is wrong; no service was called. */
  usage: 2,
  /** No service that could serve the request answered; a repetition may succeed. */
  unavailable: 3,
  /** Accepted and not completed yet; a repetition reports the completion. */
  notYet: 4,
  /** The outcome is unknown; check the state or repeat the command. */
  unknown: 5,
} as const;

/** Thrown when the command line is wrong or a needed file is missing. No service was called. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** Thrown by an action that failed and has already printed the reason. */
export class EndedWith extends Error {
  override readonly name = "EndedWith";

  constructor(readonly exitCode: number) {
    super(`ended with ${exitCode}`);
  }
}

/** Returns the name of the error's exit code, for scripts. */
export function kindOfExit(exitCode: number): string {
  return Object.entries(EXIT_CODES).find(([, code]) => code === exitCode)?.[0] ?? "failed";
}

export function exitCodeOf(error: unknown): number {
  if (error instanceof EndedWith) return error.exitCode;
  if (error instanceof UsageError) return EXIT_CODES.usage;
  if (!(error instanceof DomainError)) return EXIT_CODES.failed;
  if (error.outcome === "unknown") return EXIT_CODES.unknown;
  return error.retryable ? EXIT_CODES.unavailable : EXIT_CODES.failed;
}
