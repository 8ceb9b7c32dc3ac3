/** Tells one drive or device file from another. An empty mark says nothing. */
export interface FileMarks {
  /** The serial number that the kernel reports; a placeholder says nothing. Text of a configuration is no mark. */
  readonly serialNumber: string;
  /**
   * The marks by which the operating system tells files apart: the boot of the machine, the kind of file, and its marks. The marks hold
   * only among identities of one boot, except inode and birth time of a regular file, which outlast it.
   */
  readonly fileIdentity?: string | undefined;
}

/**
 * What shows that two descriptions are of different files or drives, for people; undefined when nothing does. A serial
 * number is the drive's own and stays when it is plugged in again, so where both sides have one it alone decides.
 */
export function fileDifference(known: FileMarks, found: FileMarks): string | undefined {
  if (isSame(known, found) !== false) return undefined;
  if (isDistinctive(known.serialNumber) && isDistinctive(found.serialNumber))
    return `serial number was ${JSON.stringify(known.serialNumber)}, is ${JSON.stringify(found.serialNumber)}`;
  return `it was ${JSON.stringify(known.fileIdentity)}, is ${JSON.stringify(found.fileIdentity)}`;
}

/** Whether the marks show one and the same file or drive. Where they show no difference either, nobody knows. */
export function isKnownSame(known: FileMarks, found: FileMarks): boolean {
  return isSame(known, found) === true;
}

export type IdentifiedBy = "SERIAL" | "INODE" | "NONE";

/** The mark that shows after a boot of the machine that it is the same file or drive; undefined while nothing is known of it. */
export function identifiedBy({ serialNumber, fileIdentity = "" }: FileMarks): IdentifiedBy | undefined {
  if (isDistinctive(serialNumber)) return "SERIAL";
  if (fileIdentity === "") return undefined;
  return lastingInode(fileIdentity) === "" ? "NONE" : "INODE";
}

/** One character over and over, counted digits, and the number that QEMU gives a drive by its place, whichever drive is there. */
const PLACEHOLDER = /^(?:QM\d{5}|(.)\1*|0?123456789\w*)$/;

/** Returns whether a serial number tells a drive from others: it is there, and no placeholder. */
export function isDistinctive(serialNumber: string): boolean {
  return serialNumber !== "" && !PLACEHOLDER.test(serialNumber.replace(/-part\d+$/, ""));
}

/** Undefined when nothing shows it. */
function isSame(known: FileMarks, found: FileMarks): boolean | undefined {
  if (isDistinctive(known.serialNumber) && isDistinctive(found.serialNumber))
    return known.serialNumber === found.serialNumber;
  const [before = "", now = ""] = [known.fileIdentity, found.fileIdentity];
  if (before === "" || now === "") return undefined;
  if (before === now) return true;
  const [[bootBefore, kindBefore], [bootNow, kindNow]] = [before.split(" "), now.split(" ")];
  // A drive does not become a file at a boot, so that nobody can confirm that it is the same.
  if (bootBefore === bootNow || kindBefore !== kindNow) return false;
  const [inodeBefore, inodeNow] = [lastingInode(before), lastingInode(now)];
  return inodeBefore === "" || inodeNow === "" ? undefined : inodeBefore === inodeNow;
}

/**
 * Inode and birth time of a regular file; empty for anything else, and where the file system tells no birth time: inodes
 * are used again.
 */
function lastingInode(fileIdentity: string): string {
  const [, kind, marks = ""] = fileIdentity.split(" ");
  const [, inode = "", birthNs = "0"] = marks.split(":");
  return kind === "file" && birthNs !== "0" ? `${inode}:${birthNs}` : "";
}
