import { readFile } from "node:fs/promises";
import { join } from "node:path";

const SYSFS = "/sys";
const MAX_LENGTH = 255;

/** Where kinds of drives show their serial number, below the block device's folder. */
const SERIAL_FILES = ["serial", "device/serial", "device/vpd_pg80", "wwid", "device/wwid", "dm/uuid"];

/**
 * The serial number of a block device, or of the drive that a partition is on, by "major:minor"; empty when the kernel
 * knows none. A partition's carries its number: two of them are not the same device.
 */
export async function serialNumberOf(number: string, sysfs = SYSFS): Promise<string> {
  const folder = join(sysfs, "dev/block", number);
  const partition = await readText(join(folder, "partition"));
  // The folder is a link into the drive's own, so its parent is the drive.
  const drive = partition === "" ? folder : `${folder}/..`;
  for (const file of SERIAL_FILES) {
    const serialNumber = await readText(`${drive}/${file}`, file.endsWith("vpd_pg80") ? 4 : 0);
    if (serialNumber !== "") return partition === "" ? serialNumber : `${serialNumber}-part${partition}`;
  }
  return "";
}

/** The kernel's count of drives when this one appeared; empty where the kernel does not count. */
export async function diskSequence(number: string, sysfs = SYSFS): Promise<string> {
  const folder = join(sysfs, "dev/block", number);
  return (await readText(join(folder, "diskseq"))) || readText(`${folder}/../diskseq`);
}

/** What the file says, from the given byte on, without anything unprintable; empty when there is no such file. */
async function readText(path: string, skippedBytes = 0): Promise<string> {
  try {
    const bytes = await readFile(path);
    return bytes
      .subarray(skippedBytes)
      .toString("latin1")
      .replace(/[^\x21-\x7e]+/g, " ")
      .trim()
      .slice(0, MAX_LENGTH);
  } catch {
    return "";
  }
}
