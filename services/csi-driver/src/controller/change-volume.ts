import type {
  ControllerExpandVolumeRequest,
  ControllerExpandVolumeResponse,
  ControllerModifyVolumeRequest,
} from "@diskmesh/api/csi";
import { bytesText, InvalidStateError } from "@diskmesh/domain";
import type { SocketCall } from "@diskmesh/rpc";
import { accessOf } from "../model/capability.js";
import { OutOfRangeError, sizeFor } from "../model/capacity.js";
import { limitsFrom } from "../model/limits.js";
import { nodeIdOf } from "../model/node-id.js";
import { needFields } from "../model/required-fields.js";
import { shownVolume } from "../model/shown.js";
import type { ControllerContext } from "./context.js";
import { volumeDisk } from "./volume-disk.js";

/** Enlarges the disk of a volume that is not published. A node enlarges the file system when it has the volume again. */
export async function expandVolume(
  context: ControllerContext,
  request: ControllerExpandVolumeRequest,
  call: SocketCall,
): Promise<ControllerExpandVolumeResponse> {
  const { volumeId, capacityRange, volumeCapability } = request;
  needFields({ volume_id: volumeId, capacity_range: capacityRange });
  const wantedBytes = sizeFor(capacityRange);
  const isBlock = volumeCapability !== undefined && accessOf(volumeCapability).mount === undefined;
  const capacityBytes = await context.work.run(volumeId, "ControllerExpandVolume", request, call, async () => {
    const disk = await volumeDisk(context, volumeId);
    const { sizeBytes, metadata } = disk;
    const nodeId = nodeIdOf(disk);
    const { limitBytes = 0 } = capacityRange ?? {};
    if (limitBytes > 0 && sizeBytes > limitBytes)
      throw new OutOfRangeError(
        `volume ${volumeId} has ${bytesText(sizeBytes)}, above the limit ${bytesText(limitBytes)}`,
      );
    if (sizeBytes >= wantedBytes) return sizeBytes;
    // A node's block device keeps the size that its disk had when it was attached.
    if (nodeId !== "")
      throw new InvalidStateError(
        `${shownVolume(volumeId, metadata)} is attached to node ${nodeId}: it grows when no pod uses it, so scale the ` +
          "workload to 0",
        {
          reason: "DISK_IN_USE",
        },
      );
    return (await context.disks.resize(volumeId, wantedBytes)).sizeBytes;
  });
  return { capacityBytes, nodeExpansionRequired: !isBlock };
}

/** Changes the I/O limits of the volume's disk; limits that the request does not name stay. */
export async function modifyVolume(
  context: ControllerContext,
  request: ControllerModifyVolumeRequest,
  call: SocketCall,
): Promise<object> {
  const { volumeId, mutableParameters } = request;
  needFields({ volume_id: volumeId });
  await context.work.run(volumeId, "ControllerModifyVolume", request, call, async () => {
    const { limits: present } = await volumeDisk(context, volumeId);
    const limits = limitsFrom(mutableParameters, present);
    if (limits !== undefined) await context.disks.setLimits(volumeId, limits);
  });
  return {};
}
