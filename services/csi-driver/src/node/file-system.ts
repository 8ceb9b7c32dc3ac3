import { InvalidStateError, UnavailableError } from "@diskmesh/domain";
import type { FileSystem } from "../model/capability.js";
import { checkReadable, type NodeDevice } from "./device.js";
import { type Ended, notInstalled, runProgram } from "./run-program.js";

const PROBE_TIMEOUT_MS = 60_000;
/** Making and checking a file system of many TiB takes minutes. */
const CHANGE_TIMEOUT_MS = 30 * 60_000;

const LOCK_WAIT_SECONDS = 10;
/** Exit code of flock for a lock that another process holds; no program that it runs uses it. */
const LOCKED = 75;

const MAKE: Readonly<Record<FileSystem, readonly string[]>> = {
  // Without a question, and without an initial trim: the registry has erased the disk.
  ext4: ["mkfs.ext4", "-F", "-q", "-m0", "-E", "nodiscard"],
  xfs: ["mkfs.xfs", "-q", "-K"],
};

/**
 * Makes the file system if the device is empty, else checks the one that it has. Throws InvalidStateError for a device
 * with other content, or with errors that need a person.
 */
export async function prepareFileSystem(device: NodeDevice, wanted: FileSystem, isReadOnly: boolean): Promise<void> {
  const found = await contentOf(device);
  if (found === wanted) {
    if (!isReadOnly) await checkFileSystem(device, wanted);
    return;
  }
  if (found !== undefined)
    throw new InvalidStateError(`${device.path} holds ${found}, not ${wanted}: nothing was changed`);
  if (isReadOnly) throw new InvalidStateError(`${device.path} is empty, and the volume is to be read only`);
  const [program = "", ...args] = MAKE[wanted];
  const { code, text } = await locked(device, program, [...args, device.path]);
  if (code !== 0) throw new UnavailableError(`${program} ${device.path} failed with ${code}: ${text}`);
}

/**
 * Returns the type of the device's content, or undefined for an empty device. A device counts as empty only if it can be
 * read and neither blkid nor wipefs finds anything, because the caller then writes to it. blkid has the same exit code
 * for an empty and an unreadable device.
 */
async function contentOf(device: NodeDevice): Promise<string | undefined> {
  const { path } = device;
  await checkReadable(device);
  const probed = await runProgram("blkid", ["--probe", "--output", "export", path], PROBE_TIMEOUT_MS);
  if (probed.code === 0)
    return /^TYPE=(.+)$/m.exec(probed.out)?.[1] ?? /^PTTYPE=(.+)$/m.exec(probed.out)?.[1] ?? "data";
  if (probed.code !== 2)
    throw new InvalidStateError(`blkid cannot tell what ${path} holds (${probed.code}): ${probed.text}`);
  const signatures = await runProgram("wipefs", ["--no-act", "--parsable", "--noheadings", path], PROBE_TIMEOUT_MS);
  if (signatures.code !== 0) throw new UnavailableError(`wipefs cannot read ${path}: ${signatures.text}`);
  if (signatures.out.trim() !== "") return `signatures (${signatures.out.trim().split("\n")[0]})`;
  await checkReadable(device);
  return undefined;
}

/** Bits of e2fsck's exit code that mean: errors are left, or the check did not work. */
const NOT_CLEAN = ~3;

async function checkFileSystem(device: NodeDevice, type: FileSystem): Promise<void> {
  // XFS replays its log at the mount and has no check of that kind.
  if (type === "xfs") return;
  const { code, text } = await locked(device, "fsck.ext4", ["-p", device.path]);
  if ((code & NOT_CLEAN) === 0) return;
  throw new InvalidStateError(
    `${device.path} has errors that fsck.ext4 does not repair by itself (${code}): run it by hand; ${text}`,
  );
}

/**
 * Runs a program that writes to the unmounted device, under an exclusive lock of the device. The program inherits the
 * lock, so that a restarted driver does not interfere with one that its predecessor began.
 */
async function locked(device: NodeDevice, program: string, args: readonly string[]): Promise<Ended> {
  const lock = ["--exclusive", "--wait", `${LOCK_WAIT_SECONDS}`, "--conflict-exit-code", `${LOCKED}`, "--no-fork"];
  const ended = await runProgram("flock", [...lock, device.path, program, ...args], CHANGE_TIMEOUT_MS);
  if (ended.code === LOCKED) throw new UnavailableError(`another program holds the lock of ${device.path}`);
  if (/failed to execute/.test(ended.text)) throw notInstalled(program);
  return ended;
}

/** Enlarges a mounted file system to the size of its device. */
export async function growFileSystem(type: string, devicePath: string, mountPath: string): Promise<void> {
  const [program, path] = type === "xfs" ? (["xfs_growfs", mountPath] as const) : (["resize2fs", devicePath] as const);
  const { code, text } = await runProgram(program, [path], CHANGE_TIMEOUT_MS);
  if (code !== 0) throw new UnavailableError(`${program} ${path} failed with ${code}: ${text}`);
}
