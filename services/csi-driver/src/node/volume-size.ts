import { statfs } from "node:fs/promises";
import {
  type NodeExpandVolumeRequest,
  type NodeGetVolumeStatsRequest,
  VolumeUsage_Unit as Unit,
  type VolumeUsage,
} from "@diskmesh/api/csi";
import { bytesText, NotFoundError, UnavailableError } from "@diskmesh/domain";
import type { SocketCall } from "@diskmesh/rpc";
import { needFields } from "../model/required-fields.js";
import type { NodeContext } from "./context.js";
import { checkAnswers, deviceAt, deviceSizeBytes } from "./device.js";
import { growMounted } from "./file-system.js";
import { mountAt } from "./mounts.js";
import { checkUsable } from "./usable.js";

/** Returns the sizes of a volume that can be used. Throws what is wrong with it otherwise. */
export async function volumeStats({
  volumeId,
  volumePath,
}: NodeGetVolumeStatsRequest): Promise<{ usage: VolumeUsage[] }> {
  needFields({ volume_id: volumeId, volume_path: volumePath });
  const device = await deviceAt(volumePath);
  if (device !== undefined) {
    await checkAnswers(device);
    const total = await deviceSizeBytes(device);
    return { usage: [{ available: 0, total, used: 0, unit: Unit.BYTES }] };
  }
  const mounted = await mountAt(volumePath);
  if (mounted === undefined) throw noVolumeAt(volumeId, volumePath);
  await checkUsable(mounted);
  const { bsize, blocks, bfree, bavail, files, ffree } = await statfs(volumePath);
  return {
    usage: [
      { available: bavail * bsize, total: blocks * bsize, used: (blocks - bfree) * bsize, unit: Unit.BYTES },
      { available: ffree, total: files, used: files - ffree, unit: Unit.INODES },
    ],
  };
}

/**
 * Answers the size of a volume's device. A file system that was mounted before its device grew is enlarged here if the
 * kernel allows it, else when it is staged again, so that no pod waits for it.
 */
export async function expandVolume(
  { work }: NodeContext,
  request: NodeExpandVolumeRequest,
  call: SocketCall,
): Promise<{ capacityBytes: number }> {
  const { volumeId, volumePath, capacityRange } = request;
  needFields({ volume_id: volumeId, volume_path: volumePath });
  return work.run(volumeId, "NodeExpandVolume", request, call, async () => {
    const published = await deviceAt(volumePath);
    const mounted = await mountAt(volumePath);
    const device = published ?? (mounted && (await deviceAt(mounted.source)));
    if (device === undefined) throw noVolumeAt(volumeId, volumePath);
    const capacityBytes = await deviceSizeBytes(device);
    const { requiredBytes = 0 } = capacityRange ?? {};
    if (capacityBytes < requiredBytes)
      throw new UnavailableError(`${device.path} has ${bytesText(capacityBytes)}, not yet ${bytesText(requiredBytes)}`);
    if (published === undefined && mounted !== undefined)
      await growMounted(mounted.fsType, device, volumePath).catch(() => {});
    return { capacityBytes };
  });
}

function noVolumeAt(volumeId: string, path: string): NotFoundError {
  return new NotFoundError(
    `volume ${JSON.stringify(volumeId)} is neither staged nor published at ${JSON.stringify(path)}`,
  );
}
