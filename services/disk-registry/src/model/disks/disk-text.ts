import { DISK_NAME_LABEL, type DiskId, quoted, timeText } from "@diskmesh/domain";
import type { Deletion } from "../store/deletion.js";
import type { RegistryTables } from "../store/schema.js";

/** Returns the disk's ID, with the name by which a director knows the disk. */
export function namedDisk({ disks }: RegistryTables, diskId: DiskId): string {
  const label = disks.get(diskId)?.labels.find(({ name }) => name === DISK_NAME_LABEL);
  return label === undefined ? diskId : `${diskId} named ${quoted(label.value)}`;
}

/** Says that the disk was deleted and is kept, and how to bring it back. */
export function keptText(diskId: DiskId, { by, atMs, untilMs }: Deletion): string {
  return `disk ${diskId} was deleted by ${by} at ${timeText(atMs)} and is kept until ${timeText(untilMs)}: bring it back with \`diskmesh undelete ${diskId}\``;
}

/** Returns the command that erases a deleted disk before its time. */
export const deleteNow = (diskId: DiskId): string => `diskmesh delete ${diskId} --now`;
