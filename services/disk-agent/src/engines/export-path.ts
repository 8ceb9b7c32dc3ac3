import { join } from "node:path";
import { type DiskId, parseDiskId } from "@diskmesh/domain";

const SOCKET_SUFFIX = ".sock";
const DEVICE_SUFFIX = ".device";

/** Returns the path of a disk's NBD socket in the exports folder. */
export function socketPathIn(folder: string, diskId: string): string {
  return join(folder, `${diskId}${SOCKET_SUFFIX}`);
}

/** Returns the path of the link to a disk's block device in the exports folder. */
export function devicePathIn(folder: string, diskId: string): string {
  return join(folder, `${diskId}${DEVICE_SUFFIX}`);
}

/** Returns whether a file name of the exports folder is that of a link to a block device. */
export function isDeviceLink(name: string): boolean {
  return name.endsWith(DEVICE_SUFFIX);
}

/** Returns the disk of the file name of a socket or of a link to a device; undefined for other names. */
export function diskIdOfExport(name: string): DiskId | undefined {
  const suffix = [SOCKET_SUFFIX, DEVICE_SUFFIX].find((each) => name.endsWith(each));
  return suffix === undefined ? undefined : asDiskId(name.slice(0, -suffix.length));
}

/** Returns the name as a disk id; undefined when it is not valid. */
export function asDiskId(name: string): DiskId | undefined {
  try {
    return parseDiskId(name, "disk_id");
  } catch {
    return undefined;
  }
}
