import { DiskFullError, messageOf } from "./errors.js";

const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: "is full: free space there",
  EDQUOT: "has no quota left for this user: free space there, or raise the quota",
  EFBIG: "allows no larger file: raise the limit (ulimit -f)",
};

/**
 * Returns a DiskFullError for an operating system error that means a full disk; undefined for any other error. `doing`
 * begins the message, e.g. "cannot write to the tablet".
 */
export function diskFullError(
  error: unknown,
  doing: string,
  path: string,
  outcome: "not_done" | "unknown" = "not_done",
): DiskFullError | undefined {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const reason = Object.hasOwn(REASONS, code) ? REASONS[code] : undefined;
  if (reason === undefined) return undefined;
  return new DiskFullError(`${doing}: the disk that holds ${path} ${reason} (${messageOf(error)})`, {
    cause: error,
    outcome,
  });
}
