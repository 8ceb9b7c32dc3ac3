import { readdir, readFile, realpath } from "node:fs/promises";
import { join } from "node:path";

const SYSFS = "/sys";
const MAX_LENGTH = 255;

/** Files with the serial number for different kinds of drives, relative to the block device's folder. */
const SERIAL_FILES = ["serial", "device/serial", "device/vpd_pg80", "wwid", "device/wwid", "dm/uuid", "md/uuid"];

/**
 * Returns the serial number of a block device, or of a partition's drive, by "major:minor". Empty when the kernel knows
 * none, or when several drives of the machine report it, as clones do and drives behind some controllers. A partition's
 * serial number includes its partition number, because two partitions are different devices.
 */
export async function serialNumberOf(number: string, sysfs = SYSFS): Promise<string> {
  const folder = join(sysfs, "dev/block", number);
  const partition = await readText(join(folder, "partition"));
  // The folder is a link into the drive's own folder, so its parent is the drive.
  const serialNumber = await readSerialNumber(partition === "" ? folder : `${folder}/..`);
  if (serialNumber === "" || (await serialNumbersOfMany(sysfs)).has(serialNumber)) return "";
  return partition === "" ? serialNumber : `${serialNumber}-part${partition}`;
}

async function readSerialNumber(drive: string): Promise<string> {
  for (const file of SERIAL_FILES) {
    const serialNumber = await readText(`${drive}/${file}`, file.endsWith("vpd_pg80") ? 4 : 0);
    if (serialNumber !== "") return serialNumber;
  }
  return "";
}

const readings = new Map<string, Promise<ReadonlySet<string>>>();

/** Reads the serial numbers of all drives; concurrent calls share one reading. */
function serialNumbersOfMany(sysfs: string): Promise<ReadonlySet<string>> {
  const reading = readings.get(sysfs) ?? readAllDrives(sysfs).finally(() => readings.delete(sysfs));
  readings.set(sysfs, reading);
  return reading;
}

async function readAllDrives(sysfs: string): Promise<ReadonlySet<string>> {
  const hardwareOf = new Map<string, string>();
  const ofMany = new Set<string>();
  for (const number of await readdir(join(sysfs, "dev/block"))) {
    const drive = join(sysfs, "dev/block", number);
    // Partitions and virtual drives have no such link. Namespaces of one NVMe drive share one.
    const hardware = await realpath(`${drive}/device`).catch(() => undefined);
    const serialNumber = hardware === undefined ? "" : await readSerialNumber(drive);
    if (hardware === undefined || serialNumber === "") continue;
    const other = hardwareOf.get(serialNumber);
    if (other !== undefined && other !== hardware) ofMany.add(serialNumber);
    hardwareOf.set(serialNumber, hardware);
  }
  return ofMany;
}

/** Returns the kernel's disk sequence number from when the drive appeared; empty where the kernel does not count. */
export async function diskSequence(number: string, sysfs = SYSFS): Promise<string> {
  const folder = join(sysfs, "dev/block", number);
  return (await readText(join(folder, "diskseq"))) || readText(`${folder}/../diskseq`);
}

/** Returns the printable text of a file from the given byte on; empty when the file does not exist. */
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
