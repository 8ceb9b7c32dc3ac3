/** What tells one drive or device file from another. Either may be empty: then it says nothing. */
export interface FileMarks {
  /** As the hardware reports it. */
  readonly serialNumber: string;
  /** As the operating system tells files apart; holds only among those with the same text before the first space. */
  readonly fileIdentity?: string | undefined;
}

/**
 * What shows that two descriptions are of different files or drives, for people; undefined when nothing does. A serial
 * number is the drive's own and stays when it is plugged in again, so where both sides have one it alone decides.
 */
export function fileDifference(known: FileMarks, found: FileMarks): string | undefined {
  if (known.serialNumber !== "" && found.serialNumber !== "") {
    if (known.serialNumber === found.serialNumber) return undefined;
    return `serial number was ${JSON.stringify(known.serialNumber)}, is ${JSON.stringify(found.serialNumber)}`;
  }
  const before = known.fileIdentity ?? "";
  const now = found.fileIdentity ?? "";
  if (before === "" || now === "" || before === now) return undefined;
  if (before.split(" ", 1)[0] !== now.split(" ", 1)[0]) return undefined;
  return `it was ${JSON.stringify(before)}, is ${JSON.stringify(now)}`;
}

/** Whether the marks show one and the same file or drive. Where they show no difference either, nobody knows. */
export function isKnownSame(known: FileMarks, found: FileMarks): boolean {
  if (known.serialNumber !== "" && found.serialNumber !== "") return known.serialNumber === found.serialNumber;
  return Boolean(known.fileIdentity) && known.fileIdentity === found.fileIdentity;
}
