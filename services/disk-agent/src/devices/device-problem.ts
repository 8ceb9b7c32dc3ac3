export interface DeviceProblem {
  readonly level: "WARNING" | "ERROR";
  readonly message: string;
}

/** Durations of a system call after which the device is WARNING or ERROR. */
export interface HangLimits {
  readonly warningAfterMs: number;
  readonly errorAfterMs: number;
}

/**
 * Returns the problem of a system call that takes too long. The text stays the same while it runs, because each new
 * text causes a report to the registry.
 */
export function hangOf(what: string, forMs: number, limits: HangLimits): DeviceProblem | undefined {
  const { warningAfterMs, errorAfterMs } = limits;
  if (forMs < warningAfterMs) return undefined;
  const [level, limitMs] =
    forMs < errorAfterMs ? (["WARNING", warningAfterMs] as const) : (["ERROR", errorAfterMs] as const);
  return { level, message: `${what} has not returned within ${limitMs} ms` };
}

/** Linux error codes of a failed drive, medium or data check. A full or a short file is not a hardware error. */
const HARDWARE_ERRORS: ReadonlySet<string | undefined> = new Set(["EIO", "ENODATA", "EREMOTEIO", "EILSEQ"]);

/** Returns whether the drive failed. Even if it works again, an operator must check it before it is trusted. */
export function isHardwareError(error: unknown): boolean {
  return error instanceof Error && HARDWARE_ERRORS.has((error as NodeJS.ErrnoException).code);
}
