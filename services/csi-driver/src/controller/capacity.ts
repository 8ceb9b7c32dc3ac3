import type { GetCapacityRequest, GetCapacityResponse } from "@diskmesh/api/csi";
import { sumBytes } from "@diskmesh/domain";
import { azOf } from "../model/topology.js";
import type { ControllerContext } from "./context.js";
import { translated } from "./create-volume.js";
import { kindParameterOf } from "./kind-parameter.js";

/**
 * Returns the space for new volumes of a pool or disk type. Without a type there is none, because every volume of a
 * deployment needs one. The space of a host's AZ counts, because its pods may use disks of the whole AZ.
 */
export async function getCapacity(
  { disks, places }: ControllerContext,
  { parameters, accessibleTopology }: GetCapacityRequest,
): Promise<Partial<GetCapacityResponse>> {
  const { key, byDefault } = kindParameterOf(disks.owner);
  const kind = parameters[key] ?? byDefault;
  if (kind === "") return { availableCapacity: 0 };
  const asked = accessibleTopology ? [azOf(accessibleTopology)] : places.map(({ az }) => az);
  const capacities = await Promise.all(asked.map((az) => disks.capacity(az, kind))).catch((error: unknown) => {
    throw translated(error);
  });
  return {
    availableCapacity: sumBytes(capacities.map(({ freeBytes }) => freeBytes)),
    maximumVolumeSize: Math.max(...capacities.map(({ maxDiskBytes }) => maxDiskBytes)),
  };
}
