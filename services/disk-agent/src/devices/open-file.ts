import { type BigIntStats, constants, readFileSync } from "node:fs";
import { type FileHandle, open, readFile, stat } from "node:fs/promises";
import { DeviceIoError, messageOf } from "@diskmesh/domain";
import { diskSequence, serialNumberOf } from "./sysfs.js";

/** The part of an open file that I/O needs. */
export type OpenHandle = Pick<FileHandle, "read" | "write" | "datasync" | "close">;

/** Which file it is, whatever its path says later. */
export interface FileFacts {
  readonly sizeBytes: number;
  /**
   * Equal for the same file or drive; numbers are given out anew when the machine boots, so its boot id comes first.
   * A regular file: file system, inode, and when it was made, since inodes are used again. A block device: its number,
   * and the kernel's count of drives, since a new drive in the same slot gets the same number.
   */
  readonly identity: string;
  /** As the kernel reports it; empty for regular files. */
  readonly serialNumber: string;
}

export interface OpenedFile extends FileFacts {
  readonly handle: OpenHandle;
}

/** How device files are opened; tests put slow and failing ones in between. */
export interface FileOpener {
  /** Opens a device file for I/O. Throws DeviceIoError with a text for people. */
  open(path: string): Promise<OpenedFile>;
  /** The same facts by path, without holding the file. */
  look(path: string): Promise<FileFacts>;
}

/** The one place that opens device files. */
export const fileOpener: FileOpener = { open: openDeviceFile, look: lookAtDeviceFile };

async function openDeviceFile(path: string): Promise<OpenedFile> {
  const before = await statDeviceFile(path);
  // What is at the path may be another file by now: O_NONBLOCK keeps the open of a FIFO from hanging. O_EXCL makes the
  // kernel refuse a block device that is mounted or held exclusively.
  const exclusive = before.isBlockDevice() ? constants.O_EXCL : 0;
  let handle: FileHandle;
  try {
    handle = await open(path, constants.O_RDWR | constants.O_NONBLOCK | exclusive);
  } catch (error) {
    throw cannotUse(path, openErrorText(error), error);
  }
  try {
    return { ...(await factsOf(path, await handle.stat({ bigint: true }))), handle };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

async function lookAtDeviceFile(path: string): Promise<FileFacts> {
  return factsOf(path, await statDeviceFile(path));
}

async function statDeviceFile(path: string): Promise<BigIntStats> {
  let facts: BigIntStats;
  try {
    facts = await stat(path, { bigint: true });
  } catch (error) {
    throw cannotUse(path, openErrorText(error), error);
  }
  refuseOtherKinds(path, facts);
  return facts;
}

async function factsOf(path: string, facts: BigIntStats): Promise<FileFacts> {
  refuseOtherKinds(path, facts);
  if (facts.isFile()) {
    const identity = `${machineBoot()} file ${facts.dev}:${facts.ino}:${facts.birthtimeNs}`;
    return { sizeBytes: Number(facts.size), identity, serialNumber: "" };
  }
  const number = blockDeviceNumber(facts.rdev);
  try {
    // The kernel counts in sectors of 512 bytes here, whatever the hardware's are.
    const sectors = Number(await readFile(`/sys/dev/block/${number}/size`, "utf8"));
    const identity = `${machineBoot()} block ${number}:${await diskSequence(number)}`;
    return { sizeBytes: sectors * 512, identity, serialNumber: await serialNumberOf(number) };
  } catch (error) {
    throw cannotUse(path, `the size of block device ${number} cannot be read: ${messageOf(error)}`, error);
  }
}

let machineBootId: string | undefined;

function machineBoot(): string {
  machineBootId ??= readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  return machineBootId;
}

function refuseOtherKinds(path: string, facts: BigIntStats): void {
  if (facts.isFile() || facts.isBlockDevice()) return;
  const kind = facts.isDirectory()
    ? "a directory"
    : facts.isFIFO()
      ? "a FIFO"
      : facts.isSocket()
        ? "a socket"
        : "a character device";
  throw cannotUse(path, `it is ${kind}, not a regular file or a block device`);
}

/** "major:minor" of a device number as Linux encodes it for user space. */
export function blockDeviceNumber(rdev: bigint): string {
  const major = ((rdev >> 8n) & 0xfffn) | ((rdev >> 32n) & 0xfffff000n);
  const minor = (rdev & 0xffn) | ((rdev >> 12n) & 0xffffff00n);
  return `${major}:${minor}`;
}

function openErrorText(error: unknown): string {
  switch ((error as NodeJS.ErrnoException).code) {
    case "ENOENT":
      return "there is no such file";
    case "EACCES":
    case "EPERM":
      return "the agent's user may not read and write it";
    case "EISDIR":
      return "it is a directory, not a regular file or a block device";
    case "EBUSY":
      return "it is mounted, or another process holds it";
    default:
      return messageOf(error);
  }
}

function cannotUse(path: string, reason: string, cause?: unknown): DeviceIoError {
  return new DeviceIoError(`device file ${JSON.stringify(path)} cannot be used: ${reason}`, { cause });
}
