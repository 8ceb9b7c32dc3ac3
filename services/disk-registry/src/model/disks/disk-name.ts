import { DISK_NAME_LABEL, type DiskId, quoted } from "@diskmesh/domain";
import type { RegistryTables } from "../store/schema.js";

/** Returns the disk's ID, with the name by which a director knows the disk. */
export function namedDisk({ disks }: RegistryTables, diskId: DiskId): string {
  const label = disks.get(diskId)?.labels.find(({ name }) => name === DISK_NAME_LABEL);
  return label === undefined ? diskId : `${diskId} named ${quoted(label.value)}`;
}
