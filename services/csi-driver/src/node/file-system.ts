import { InvalidStateError, MIB_BYTES, UnavailableError } from "@diskmesh/domain";
import type { FileSystem } from "../model/capability.js";
import { checkReadable, deviceSizeBytes, firstDataIn, type NodeDevice } from "./device.js";
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

/** Facts about a device apart from its content. */
export interface Formatting {
  /** Nobody can have written to the device. */
  readonly isNew: boolean;
  /** An earlier mkfs began and may not have ended; nothing was mounted since. */
  readonly wasInterrupted: boolean;
  /** Records durably that mkfs begins. */
  begins(): Promise<void>;
}

/**
 * Makes the file system on a device that certainly holds no data, else checks the one that it has, and enlarges it to the
 * size of the device. Throws InvalidStateError for a device with other content, or with errors that need a person.
 *
 * A device whose signatures are damaged looks empty to blkid. A device without signatures is therefore read to its end,
 * unless nobody can have written to it.
 */
export async function prepareFileSystem(
  device: NodeDevice,
  wanted: FileSystem,
  isReadOnly: boolean,
  formatting: Formatting,
): Promise<void> {
  const { path } = device;
  const found = formatting.wasInterrupted ? undefined : await contentOf(device);
  if (found === wanted) {
    if (!isReadOnly) await checkFileSystem(device, wanted);
    return;
  }
  if (found !== undefined) throw new InvalidStateError(`${path} holds ${found}, not ${wanted}: nothing was changed`);
  if (isReadOnly) throw new InvalidStateError(`${path} is empty, and the volume is to be read only`);
  if (!formatting.isNew && !formatting.wasInterrupted) {
    const offset = await firstDataIn(device);
    if (offset !== undefined)
      throw new InvalidStateError(
        `${path} has no signature of a file system, but data at byte ${offset}: nothing was changed. Repair it by hand, ` +
          "for ext4 with `fsck.ext4 -b 32768`, or delete the volume if nobody needs its data",
      );
  }
  await formatting.begins();
  const [program = "", ...args] = MAKE[wanted];
  const { code, text } = await locked(device, program, [...args, path]);
  if (code !== 0) throw new UnavailableError(`${program} ${path} failed with ${code}: ${text}`);
}

/**
 * Returns the type of the device's content, or undefined when neither blkid nor wipefs finds a signature. Throws for a
 * device that cannot be read, for which blkid has the same exit code.
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
  // XFS replays its log at the mount, has no check of that kind, and grows while it is mounted only.
  if (type === "xfs") return;
  await repair(device, "-p");
  if (!(await isSmallerThanDevice(device))) return;
  // resize2fs needs a whole check, and the kernel lets containers without CAP_SYS_RESOURCE grow no mounted file system.
  await repair(device, "-fp");
  const { code, text } = await locked(device, "resize2fs", [device.path]);
  if (code !== 0) throw new UnavailableError(`resize2fs ${device.path} failed with ${code}: ${text}`);
}

async function repair(device: NodeDevice, flags: string): Promise<void> {
  const { code, text } = await locked(device, "fsck.ext4", [flags, device.path]);
  if ((code & NOT_CLEAN) === 0) return;
  throw new InvalidStateError(
    `${device.path} has errors that fsck.ext4 does not repair by itself (${code}): run it by hand; ${text}`,
  );
}

/** Space at the end of a device that mkfs and resize2fs may leave, because a group of blocks does not fit into it. */
const UNUSED_BYTES = 4 * MIB_BYTES;

async function isSmallerThanDevice(device: NodeDevice): Promise<boolean> {
  const { code, out, text } = await runProgram("dumpe2fs", ["-h", device.path], PROBE_TIMEOUT_MS);
  const [count, sizeBytes] = [/^Block count: +(\d+)$/m, /^Block size: +(\d+)$/m].map((line) =>
    Number(line.exec(out)?.[1]),
  );
  const bytes = (count ?? Number.NaN) * (sizeBytes ?? Number.NaN);
  if (code !== 0 || Number.isNaN(bytes))
    throw new UnavailableError(`dumpe2fs ${device.path} failed with ${code}: ${text}`);
  return bytes + UNUSED_BYTES <= (await deviceSizeBytes(device));
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

/** Enlarges a mounted file system to the size of its device if it is smaller. */
export async function growMounted(type: string, device: NodeDevice, mountPath: string): Promise<void> {
  if (type !== "xfs" && !(await isSmallerThanDevice(device))) return;
  const [program, path] = type === "xfs" ? (["xfs_growfs", mountPath] as const) : (["resize2fs", device.path] as const);
  const { code, text } = await runProgram(program, [path], CHANGE_TIMEOUT_MS);
  if (code !== 0) throw new UnavailableError(`${program} ${path} failed with ${code}: ${text}`);
}
