import type { DynamicDisk } from "@diskmesh/api/director";
import { NotFoundError } from "@diskmesh/domain";
import type { ControllerContext } from "./context.js";
import { isVolumeId } from "./volume-id.js";

/** Returns the volume's disk if it exists. */
export async function findDisk({ disks }: ControllerContext, volumeId: string): Promise<DynamicDisk | undefined> {
  return isVolumeId(volumeId) ? disks.get(volumeId) : undefined;
}

/** Returns the volume's disk; throws NotFoundError when there is no such volume. */
export async function volumeDisk(context: ControllerContext, volumeId: string): Promise<DynamicDisk> {
  const disk = await findDisk(context, volumeId);
  if (disk !== undefined && disk.diskCid !== "") return disk;
  throw new NotFoundError(`volume ${JSON.stringify(volumeId)} does not exist`, { about: { volume_id: volumeId } });
}
