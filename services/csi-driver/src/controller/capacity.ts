import type { GetCapacityRequest, GetCapacityResponse } from "@diskmesh/api/csi";
import { sumBytes } from "@diskmesh/domain";
import { azOf } from "../model/topology.js";
import type { ControllerContext } from "./context.js";
import { DISK_TYPE, translated } from "./create-volume.js";

/** Returns the space for new volumes of a disk type. Without a type there is none, because every volume needs one. */
export async function getCapacity(
  { disks, azs }: ControllerContext,
  { parameters, accessibleTopology }: GetCapacityRequest,
): Promise<Partial<GetCapacityResponse>> {
  const diskType = parameters[DISK_TYPE] ?? "";
  if (diskType === "") return { availableCapacity: 0 };
  const asked = accessibleTopology ? [azOf(accessibleTopology)] : azs;
  const capacities = await Promise.all(asked.map((az) => disks.capacity(az, diskType))).catch((error: unknown) => {
    throw translated(error);
  });
  return {
    availableCapacity: sumBytes(capacities.map(({ freeBytes }) => freeBytes)),
    maximumVolumeSize: Math.max(...capacities.map(({ maxDiskBytes }) => maxDiskBytes)),
  };
}
