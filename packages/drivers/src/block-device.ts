import { readFile, realpath, stat } from "node:fs/promises";
import { MethodError } from "@diskmesh/driver";

/** Where the kernel shows the drive under a device file, and what it has done. */
interface BlockDevice {
  /** The file that programs such as smartctl are given. */
  readonly file: string;
  /** The folder of the drive in sysfs, that of a partition's drive for a partition. */
  readonly folder: string;
}

/** Throws MethodError for a file that is no block device, or where there is no sysfs. */
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
    throw new MethodError("unavailable", `the host shows nothing of ${path} in /sys/dev/block/${major}:${minor}`);
  }
}

/** Undefined where there is no such file. */
export async function textOf(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, "utf8")).trim();
  } catch {
    return undefined;
  }
}
