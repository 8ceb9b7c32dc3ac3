/** Identifies a drive or device file. An empty mark identifies nothing. */
export interface FileMarks {
  /**
   * Serial number that the kernel reports. Placeholders identify nothing; neither does a number written in a config.
   */
  readonly serialNumber: string;
  /**
   * Identity of the file in the operating system: the machine's boot, the kind of file, and numbers such as the inode.
   * It is comparable only within one boot, except for inode and birth time of a regular file, which are permanent.
   */
  readonly fileIdentity?: string | undefined;
}

/**
 * Returns the evidence that two descriptions are of different files or drives, for people; undefined when there is
 * none. A serial number belongs to the drive and stays when it is plugged in again, so it alone decides when both sides
 * have one.
 */
export function fileDifference(known: FileMarks, found: FileMarks): string | undefined {
  if (isSame(known, found) !== false) return undefined;
  if (isDistinctive(known.serialNumber) && isDistinctive(found.serialNumber))
    return `serial number was ${JSON.stringify(known.serialNumber)}, is ${JSON.stringify(found.serialNumber)}`;
  return `it was ${JSON.stringify(known.fileIdentity)}, is ${JSON.stringify(found.fileIdentity)}`;
}

/**
 * Returns true when the marks prove that both are the same file or drive. False does not prove a difference (see
 * `fileDifference`).
 */
export function isKnownSame(known: FileMarks, found: FileMarks): boolean {
  return isSame(known, found) === true;
}

export type IdentifiedBy = "SERIAL" | "INODE" | "NONE";

/**
 * Returns the mark that identifies the file or drive after a reboot of the machine; undefined while nothing is known of
 * it.
 */
export function identifiedBy({ serialNumber, fileIdentity = "" }: FileMarks): IdentifiedBy | undefined {
  if (isDistinctive(serialNumber)) return "SERIAL";
  if (fileIdentity === "") return undefined;
  return lastingInode(fileIdentity) === "" ? "NONE" : "INODE";
}

/**
 * Matches serial numbers that identify no drive: one repeated character, digits in counting order, and the number that
 * QEMU derives from the slot instead of the drive.
 */
const PLACEHOLDER = /^(?:QM\d{5}|(.)\1*|0?123456789\w*)$/;

/** Returns whether a serial number identifies a drive: it is present, and no placeholder. */
export function isDistinctive(serialNumber: string): boolean {
  return serialNumber !== "" && !PLACEHOLDER.test(serialNumber.replace(/-part\d+$/, ""));
}

/** Returns true or false when the marks prove that both are the same file or different ones; otherwise undefined. */
function isSame(known: FileMarks, found: FileMarks): boolean | undefined {
  if (isDistinctive(known.serialNumber) && isDistinctive(found.serialNumber))
    return known.serialNumber === found.serialNumber;
  const [before = "", now = ""] = [known.fileIdentity, found.fileIdentity];
  if (before === "" || now === "") return undefined;
  if (before === now) return true;
  const [[bootBefore, kindBefore], [bootNow, kindNow]] = [before.split(" "), now.split(" ")];
  // Different identities in one boot are different files. So are different kinds, because a drive does not become a
  // file at a reboot.
  if (bootBefore === bootNow || kindBefore !== kindNow) return false;
  const [inodeBefore, inodeNow] = [lastingInode(before), lastingInode(now)];
  return inodeBefore === "" || inodeNow === "" ? undefined : inodeBefore === inodeNow;
}

/**
 * Returns inode and birth time of a regular file. Empty for other kinds, and for file systems without a birth time,
 * because inodes are reused.
 */
function lastingInode(fileIdentity: string): string {
  const [, kind, marks = ""] = fileIdentity.split(" ");
  const [, inode = "", birthNs = "0"] = marks.split(":");
  return kind === "file" && birthNs !== "0" ? `${inode}:${birthNs}` : "";
}
