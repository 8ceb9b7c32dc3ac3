import { readdir, readFile, realpath } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { DrivePlace } from "../model/drive-errors.js";
import { SECTOR_BYTES } from "../model/mapped-devices.js";

const SYSFS = "/sys";
const MAX_LENGTH = 255;

/** Files that hold a serial number, depending on the kind of drive; relative to the block device's folder. */
const SERIAL_FILES = ["serial", "device/serial", "device/vpd_pg80", "wwid", "device/wwid", "dm/uuid", "md/uuid"];

/**
 * Returns the serial number of a block device, or of a partition's drive; `number` is "major:minor". Empty when the
 * kernel reports none, or reports the same for several drives of the machine (clones, and some controllers). A
 * partition's serial number includes its partition number, because partitions are separate devices.
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

/** Returns the serial numbers that several drives report. Concurrent calls share one scan. */
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
    // Skips partitions and virtual drives, which lack this link. Namespaces of one NVMe drive have the same target, so
    // they count as one drive.
    const hardware = await realpath(`${drive}/device`).catch(() => undefined);
    const serialNumber = hardware === undefined ? "" : await readSerialNumber(drive);
    if (hardware === undefined || serialNumber === "") continue;
    const other = hardwareOf.get(serialNumber);
    if (other !== undefined && other !== hardware) ofMany.add(serialNumber);
    hardwareOf.set(serialNumber, hardware);
  }
  return ofMany;
}

/** Returns the NQN of the subsystem of an NVMe drive, or of a partition's drive; empty for others. */
export async function subsystemOf(number: string, sysfs = SYSFS): Promise<string> {
  const folder = join(sysfs, "dev/block", number);
  return (await readText(join(folder, "device/subsysnqn"))) || readText(`${folder}/../device/subsysnqn`);
}

/** Returns the kernel's sequence number of the drive's appearance; empty on kernels without it. */
export async function diskSequence(number: string, sysfs = SYSFS): Promise<string> {
  const folder = join(sysfs, "dev/block", number);
  return (await readText(join(folder, "diskseq"))) || readText(`${folder}/../diskseq`);
}

/** Returns the drive of a block device, and where a partition starts on it. */
export async function drivePlaceOf(number: string, sysfs = SYSFS): Promise<DrivePlace> {
  const folder = await realpath(join(sysfs, "dev/block", number));
  const start = await readText(join(folder, "start"));
  if (start === "") return { name: basename(folder), startBytes: 0 };
  return { name: basename(dirname(folder)), startBytes: Number(start) * SECTOR_BYTES };
}

/** Returns the printable text of a file without its first `skippedBytes` bytes; empty when the file does not exist. */
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
