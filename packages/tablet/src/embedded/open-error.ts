import { DomainError, diskFullError, InvalidStateError, messageOf, UnavailableError } from "@diskmesh/domain";

const OPEN_FILES = "raise its limit (ulimit -n, LimitNOFILE=), or end what holds files open";
const PERMISSION = "give the folder, its files and its parents to the user of this process";
const DISK = "the disk or its file system fails: see the kernel's log";

/** Remedies for errors that say nothing about the stored data. */
const REMEDIES: Readonly<Record<string, string>> = {
  EMFILE: `this process has too many open files: ${OPEN_FILES}`,
  ENFILE: `this machine has too many open files: ${OPEN_FILES}`,
  ENOMEM: "this machine has no memory left: free memory there",
  EACCES: PERMISSION,
  EPERM: PERMISSION,
  EROFS: "its file system is mounted read-only: mount it for writing, and see the kernel's log for why",
  EIO: DISK,
  ENXIO: DISK,
  ESTALE: "its network file system lost the folder: mount it anew",
  ETIMEDOUT: "its network file system does not answer: check the network and the server",
  EBUSY: "something is mounted there: mount that at a folder above",
};

/** Returns true for an error of a call that failed for want of resources or rights, which is no damage of the data. */
export function isNoDamage(error: unknown): boolean {
  const code = codeOf(error);
  return code !== "EIO" && remedyOf(code) !== undefined;
}

/** Converts an error of the operating system to one with a remedy; returns other errors unchanged. */
export function openError(error: unknown, what: "tablet" | "event log", folder: string): unknown {
  if (error instanceof DomainError || !(error instanceof Error) || codeOf(error) === "") return error;
  const remedy = remedyOf(codeOf(error));
  const failed = `the folder ${folder} cannot be opened as ${what === "tablet" ? "a tablet" : "an event log"}`;
  return (
    diskFullError(error, `cannot open the ${what}`, folder) ??
    (remedy === undefined
      ? new InvalidStateError(`${failed}: ${messageOf(error)}; configure another folder`, { cause: error })
      : new UnavailableError(`${failed}: ${messageOf(error)}; ${remedy}`, { cause: error }))
  );
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

function remedyOf(code: string): string | undefined {
  return Object.hasOwn(REMEDIES, code) ? REMEDIES[code] : undefined;
}
