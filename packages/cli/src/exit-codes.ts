import { DomainError } from "@diskmesh/domain";

/** The exit codes of the command, for scripts. */
export const EXIT_CODES = {
  done: 0,
  /** Refused, or failed for good: the same again fails again. */
  failed: 1,
  /** The command line is wrong; nobody was asked. */
  usage: 2,
  /** Nobody who could do it answered, or not now: the same again may work. */
  unavailable: 3,
  /** It is noted and not done yet: the same again tells when it is. */
  notYet: 4,
  /** It may have been done: look, or ask for the same again. */
  unknown: 5,
} as const;

/** The command line is wrong, or a file that it needs is missing. No service was asked. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** An action that ended otherwise than well, and has said why. */
export class EndedWith extends Error {
  override readonly name = "EndedWith";

  constructor(readonly exitCode: number) {
    super(`ended with ${exitCode}`);
  }
}

export function exitCodeOf(error: unknown): number {
  if (error instanceof EndedWith) return error.exitCode;
  if (error instanceof UsageError) return EXIT_CODES.usage;
  if (!(error instanceof DomainError)) return EXIT_CODES.failed;
  if (error.outcome === "unknown") return EXIT_CODES.unknown;
  return error.retryable ? EXIT_CODES.unavailable : EXIT_CODES.failed;
}
