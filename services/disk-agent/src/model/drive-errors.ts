import { SECTOR_BYTES } from "./mapped-devices.js";

/** Error of a request to a drive, as the kernel's block layer logs it. */
export interface DriveError {
  /** Name of the drive in /sys/block. */
  readonly drive: string;
  /** Kind of the error, in the kernel's words. */
  readonly kind: string;
  /** Operation, in the kernel's words; empty on kernels that do not log it. */
  readonly operation: string;
  /** Start of the failed bytes on the drive; undefined for a request without bytes, such as a flush. */
  readonly offsetBytes: number | undefined;
}

/** Place of a device file on a drive. A partition does not start at 0. */
export interface DrivePlace {
  /** Name of the drive in /sys/block. */
  readonly name: string;
  readonly startBytes: number;
}

/**
 * Kinds that mean a failed drive, medium or data check: those of EIO, ENODATA, EREMOTEIO and EILSEQ, as for errors that
 * the agent's own I/O has.
 */
const KINDS = "I/O|critical medium|critical target|protection";
/** Drives also fail discards and zeroings that they merely do not support. */
const OPERATIONS = ["", "READ", "WRITE", "FLUSH"];
// The text begins with the kind, because other messages may contain names that tenants chose.
const LINE = new RegExp(
  `^(\\d{1,4}),[^;]{0,100};(?:(?:blk_update_request|print_req_error): )?(${KINDS}) error, ` +
    "dev ([\\w-]{1,64}), sector (\\d{1,20})(?: op 0x[\\da-f]+:\\(([A-Z_]{1,32})\\))?(?: flags 0x[\\da-f]+)?(?: phys_seg (\\d+))?",
);
/** Above it, a message comes from a program. */
const MAX_KERNEL_PRIORITY = 7;

/** Returns the error that a record of /dev/kmsg tells; undefined for a record that tells none. */
export function parseDriveError(record: string): DriveError | undefined {
  const found = LINE.exec(record);
  if (found === null || Number(found[1]) > MAX_KERNEL_PRIORITY) return undefined;
  const [, , kind = "", drive = "", sector = "", operation = "", segments] = found;
  if (!OPERATIONS.includes(operation)) return undefined;
  // A flush is logged as a write of nothing.
  const hasBytes = operation !== "FLUSH" && segments !== "0";
  // A path of a multipath NVMe drive, such as nvme0c1n1, is hidden. The drive is nvme0n1.
  const name = drive.replace(/^(nvme\d+)c\d+(n\d+)$/, "$1$2");
  return { drive: name, kind, operation, offsetBytes: hasBytes ? Number(sector) * SECTOR_BYTES : undefined };
}

/** Returns whether the error is one of these bytes of a device file. */
export function isErrorOf(
  { drive, offsetBytes: at }: DriveError,
  { name, startBytes }: DrivePlace,
  bytes: { readonly offsetBytes: number; readonly sizeBytes: number },
): boolean {
  if (drive !== name) return false;
  if (at === undefined) return true;
  const firstByte = startBytes + bytes.offsetBytes;
  return at >= firstByte && at < firstByte + bytes.sizeBytes;
}

/** Returns the message of a device's health. */
export function describeDriveError({ drive, kind, operation, offsetBytes }: DriveError): string {
  const where = offsetBytes === undefined ? "" : ` at sector ${offsetBytes / SECTOR_BYTES}`;
  return `the kernel has logged: ${kind} error of drive ${drive}${where}${operation && ` (${operation})`}`;
}
