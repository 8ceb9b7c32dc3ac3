import { type BigIntStats, constants } from "node:fs";
import { type FileHandle, open, readFile, readlink, stat } from "node:fs/promises";
import { DeviceIoError, messageOf } from "@diskmesh/domain";
import {
  describeFlockHolder,
  describeHolder,
  deviceNumber,
  type FileLocking,
  lockFile,
  punchHole,
} from "@diskmesh/file-lock";
import { readDirect } from "../host/direct-read.js";
import { writeDirect } from "../host/direct-write.js";
import { machineBootId } from "../host/machine-boot-id.js";
import { diskSequence, serialNumberOf, subsystemOf } from "../host/sysfs.js";
import { isOfMesh } from "../kernel/nvme-names.js";
import type { DrivePlace } from "../model/drive-errors.js";
import { SECTOR_BYTES } from "../model/mapped-devices.js";
import type { FileSyncs } from "./file-syncs.js";

/** Moves bytes between `offset` of the buffer and `position` of the file. */
type Transfer<Moved> = (buffer: Uint8Array, offset: number, length: number, position: number) => Promise<Moved>;

/** Operations of an open file that I/O needs, as functions that can be copied. */
export interface OpenHandle {
  readonly read: Transfer<{ readonly bytesRead: number }>;
  readonly write: Transfer<{ readonly bytesWritten: number }>;
  datasync(): Promise<void>;
  close(): Promise<void>;
  /**
   * Frees the space of a byte range, which reads as zeros then. Returns false when the file system or drive does not
   * support that.
   */
  punchHole(offsetBytes: number, lengthBytes: number): Promise<boolean>;
  /** Reads bytes from the drive itself. Absent for files of which the agent has no descriptor. */
  readBack?(offsetBytes: number, lengthBytes: number): Promise<Buffer>;
  /** Writes bytes to the drive itself, durably. Absent where `readBack` is. */
  writeBack?(offsetBytes: number, bytes: Uint8Array): Promise<void>;
  /** Number of the device on which the legs of sessions lie. Present where the kernel carries the bytes. */
  readonly guard?: string;
  /** Place of the file on its drive. Present where the kernel carries the bytes. */
  readonly drive?: DrivePlace;
  /** Syncs of this descriptor alone. Absent for a descriptor that all sessions share. */
  readonly syncs?: FileSyncs;
}

/** Facts of a file that stay true when its path changes. */
export interface FileFacts {
  readonly sizeBytes: number;
  /**
   * Equal for the same file or drive. Begins with the machine's boot id, because numbers are reassigned at boot. A
   * regular file has its file system, inode and creation time, because inodes are reused. A block device has its number
   * and the kernel's disk sequence number, because a new drive in the same slot gets the same number.
   */
  readonly identity: string;
  /** Serial number from the kernel; empty for regular files. */
  readonly serialNumber: string;
}

export interface OpenedFile extends FileFacts {
  readonly handle: OpenHandle;
}

/** Opens device files; tests insert slow and failing ones. */
export interface FileOpener {
  /** Opens a device file for I/O. Throws DeviceIoError with a text for people. */
  open(path: string): Promise<OpenedFile>;
  /** Returns the facts of the file at the path, without keeping it open. */
  look(path: string): Promise<FileFacts>;
  /** From now on a close leaves to the agent's next life what outlives the agent. */
  leave?(): void;
  /** Ends what a former life of the agent has left over a file that is not to be open. Resolves when nothing is left. */
  clear?(path: string): Promise<void>;
  /** Ends what former lives have left over files that no path names. */
  clearOthers?(): Promise<void>;
  /** Returns bytes of the file at the path, without keeping it open; fewer where the file ends. */
  peek(path: string, offsetBytes: number, lengthBytes: number): Promise<FileFacts & { readonly bytes: Buffer }>;
}

export interface FileOpenerOptions {
  /** False also opens regular files on file systems without locks. */
  readonly requireLocks: boolean;
  readonly lock?: FileLocking;
}

/**
 * Returns the opener of device files, the only code that opens and locks them. The lock excludes every other process
 * that uses locks.
 */
export function makeFileOpener({ requireLocks, lock = lockFile }: FileOpenerOptions): FileOpener {
  return {
    look: lookAtDeviceFile,
    peek: peekAtDeviceFile,
    open: async (path) => {
      const handle = await openHandle(path);
      try {
        const stats = await handle.stat({ bigint: true });
        const facts = await factsOf(path, stats);
        if (stats.isFile()) await lockRegularFile(path, handle.fd, stats, { requireLocks, lock });
        return { ...facts, handle: asOpenHandle(handle) };
      } catch (error) {
        await handle.close();
        throw error;
      }
    },
  };
}

function asOpenHandle(file: FileHandle): OpenHandle {
  // Names no file once this one is closed.
  const path = () => `/proc/self/fd/${file.fd}`;
  return {
    read: (...of) => file.read(...of),
    write: (...of) => file.write(...of),
    datasync: () => file.datasync(),
    close: () => file.close(),
    punchHole: (offsetBytes, lengthBytes) => punchHole(file.fd, offsetBytes, lengthBytes),
    readBack: async (offsetBytes, lengthBytes) => (await readDirect(path(), offsetBytes, lengthBytes)).bytes,
    writeBack: (offsetBytes, bytes) => writeDirect(path(), offsetBytes, bytes),
  };
}

async function peekAtDeviceFile(path: string, offsetBytes: number, lengthBytes: number) {
  await statDeviceFile(path);
  const { bytes, stats } = await readDirect(path, offsetBytes, lengthBytes);
  return { ...(await factsOf(path, stats)), bytes };
}

async function openHandle(path: string): Promise<FileHandle> {
  const before = await statDeviceFile(path);
  // Another file may be at the path since the check: O_NONBLOCK keeps the open of a FIFO from hanging, and O_EXCL makes
  // the kernel refuse a block device that is mounted or held exclusively.
  const exclusive = before.isBlockDevice() ? constants.O_EXCL : 0;
  try {
    return await open(path, constants.O_RDWR | constants.O_NONBLOCK | exclusive);
  } catch (error) {
    const isBusy = (error as NodeJS.ErrnoException).code === "EBUSY";
    const reason = isBusy
      ? `it is mounted, or held by ${await describeHolder(before)}`
      : await openErrorText(path, error);
    throw cannotUse(path, reason, error);
  }
}

async function lockRegularFile(
  path: string,
  fd: number,
  stats: BigIntStats,
  { requireLocks, lock }: Required<FileOpenerOptions>,
): Promise<void> {
  const attempt = lock(fd);
  if (attempt.outcome === "held")
    throw cannotUse(
      path,
      `it is locked by ${await describeHolder(stats)}: the agent opens it once the lock is released`,
    );
  if (attempt.outcome === "impossible" && requireLocks)
    throw cannotUse(
      path,
      `it cannot be locked (${attempt.reason}): move it to a file system with locks, or set requireFileLocks to false if nothing else uses it`,
    );
  const holder = await describeFlockHolder(stats);
  if (holder !== undefined)
    throw cannotUse(path, `it is locked (flock) by ${holder}: the agent opens it once the lock is released`);
}

async function lookAtDeviceFile(path: string): Promise<FileFacts> {
  return factsOf(path, await statDeviceFile(path));
}

async function statDeviceFile(path: string): Promise<BigIntStats> {
  let facts: BigIntStats;
  try {
    facts = await stat(path, { bigint: true });
  } catch (error) {
    throw cannotUse(path, await openErrorText(path, error), error);
  }
  refuseOtherKinds(path, facts);
  if (facts.isBlockDevice() && isOfMesh(await subsystemOf(deviceNumber(facts.rdev))))
    throw cannotUse(path, "it is a part of a disk, on a device of another host of diskmesh");
  return facts;
}

async function factsOf(path: string, facts: BigIntStats): Promise<FileFacts> {
  refuseOtherKinds(path, facts);
  if (facts.isFile()) {
    const identity = `${await machineBootId()} file ${facts.dev}:${facts.ino}:${facts.birthtimeNs}`;
    return { sizeBytes: Number(facts.size), identity, serialNumber: "" };
  }
  const number = deviceNumber(facts.rdev);
  try {
    const sectors = Number(await readFile(`/sys/dev/block/${number}/size`, "utf8"));
    const identity = `${await machineBootId()} block ${number}:${await diskSequence(number)}`;
    return { sizeBytes: sectors * SECTOR_BYTES, identity, serialNumber: await serialNumberOf(number) };
  } catch (error) {
    throw cannotUse(path, `the size of block device ${number} cannot be read: ${messageOf(error)}`, error);
  }
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

async function openErrorText(path: string, error: unknown): Promise<string> {
  const { code } = error as NodeJS.ErrnoException;
  switch (code) {
    case "ENOENT": {
      const target = await readlink(path).catch(() => undefined);
      if (target === undefined) return "there is no such file";
      return `it is a symbolic link, and ${JSON.stringify(target)}, to which it leads, is not there`;
    }
    case "EACCES":
    case "EPERM":
      return `the agent's user may not read and write it (${code}): see its owner and mode, lsattr, and the security policy`;
    case "EISDIR":
      return "it is a directory, not a regular file or a block device";
    default:
      return messageOf(error);
  }
}

/** Linux error codes of a path that names no file, and of a block device whose drive was taken out. */
const GONE: ReadonlySet<unknown> = new Set(["ENOENT", "ENOTDIR", "ENODEV", "ENXIO", "ENOMEDIUM"]);

/** Returns whether an error of a look says that nothing is at the path. */
export function isGone(error: unknown): boolean {
  return error instanceof DeviceIoError && GONE.has((error.cause as NodeJS.ErrnoException | undefined)?.code);
}

function cannotUse(path: string, reason: string, cause?: unknown): DeviceIoError {
  return new DeviceIoError(`device file ${JSON.stringify(path)} cannot be used: ${reason}`, { cause });
}
