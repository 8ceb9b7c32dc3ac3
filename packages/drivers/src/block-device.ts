import { readFile, realpath, stat } from "node:fs/promises";
import { MethodError } from "@diskmesh/driver";

/** A whole drive, found from the device file of the drive or of one of its partitions. */
interface BlockDevice {
  /** Device file of the whole drive, as smartctl expects it, e.g. `/dev/sda`. */
  readonly file: string;
  /** Folder of the whole drive in sysfs. */
  readonly folder: string;
}

/** Finds the drive of a device file. Throws MethodError when the file is no block device or sysfs does not list it. */
export async function blockDeviceOf(path: string): Promise<BlockDevice> {
  const facts = await stat(path);
  if (!facts.isBlockDevice())
    throw new MethodError("unavailable", `${path} is a regular file: only a block device has a drive of its own`);
  const major = (facts.rdev >> 8) & 0xfff;
  const minor = (facts.rdev & 0xff) | ((facts.rdev >> 12) & 0xfff00);
  try {
    const folder = await realpath(`/sys/dev/block/${major}:${minor}`);
    const isPartition = (await textOf(`${folder}/partition`)) !== undefined;
    const drive = isPartition ? await realpath(`${folder}/..`) : folder;
    return { file: `/dev/${drive.slice(drive.lastIndexOf("/") + 1)}`, folder: drive };
  } catch {
    throw new MethodError("unavailable", `the host has no entry for ${path} in /sys/dev/block/${major}:${minor}`);
  }
}

/** Returns the trimmed content of a file; undefined when it cannot be read. */
export async function textOf(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, "utf8")).trim();
  } catch {
    return undefined;
  }
}
