/** What is wrong with a device. */
export interface DeviceProblem {
  readonly level: "WARNING" | "ERROR";
  readonly message: string;
}

/** How long the operating system may take to answer: beyond it the device is suspected, or not to be used. */
export interface HangLimits {
  readonly warningAfterMs: number;
  readonly errorAfterMs: number;
}

/** What has not been answered for too long. The text stays the same meanwhile: each new one is told. */
export function hangOf(what: string, forMs: number, limits: HangLimits): DeviceProblem | undefined {
  const { warningAfterMs, errorAfterMs } = limits;
  if (forMs < warningAfterMs) return undefined;
  const [level, limitMs] =
    forMs < errorAfterMs ? (["WARNING", warningAfterMs] as const) : (["ERROR", errorAfterMs] as const);
  return { level, message: `${what} has not returned within ${limitMs} ms` };
}

/** What Linux answers when a drive, its medium or what checks its data fails; a full or short file is no such thing. */
const HARDWARE_ERRORS: ReadonlySet<string | undefined> = new Set(["EIO", "ENODATA", "EREMOTEIO", "EILSEQ"]);

/** Whether the drive failed, which works again perhaps, but is not to be trusted before somebody has seen to it. */
export function isHardwareError(error: unknown): boolean {
  return error instanceof Error && HARDWARE_ERRORS.has((error as NodeJS.ErrnoException).code);
}
