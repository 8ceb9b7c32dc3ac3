export interface DeviceProblem {
  readonly level: "WARNING" | "ERROR";
  readonly message: string;
}

/** Limits of a system call's duration, after which the device is suspected or unusable. */
export interface HangLimits {
  readonly warningAfterMs: number;
  readonly errorAfterMs: number;
}

/**
 * Returns the problem of a system call that has taken too long. The text stays the same meanwhile, because each new
 * text is reported.
 */
export function hangOf(what: string, forMs: number, limits: HangLimits): DeviceProblem | undefined {
  const { warningAfterMs, errorAfterMs } = limits;
  if (forMs < warningAfterMs) return undefined;
  const [level, limitMs] =
    forMs < errorAfterMs ? (["WARNING", warningAfterMs] as const) : (["ERROR", errorAfterMs] as const);
  return { level, message: `${what} has not returned within ${limitMs} ms` };
}

/** Linux's error codes for a failed drive, medium or data check. A full or short file is not a hardware error. */
const HARDWARE_ERRORS: ReadonlySet<string | undefined> = new Set(["EIO", "ENODATA", "EREMOTEIO", "EILSEQ"]);

/** Returns whether the drive failed. It may work again, but must not be trusted before an operator has checked it. */
export function isHardwareError(error: unknown): boolean {
  return error instanceof Error && HARDWARE_ERRORS.has((error as NodeJS.ErrnoException).code);
}
