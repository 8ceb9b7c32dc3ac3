import {
  type ControllerGetVolumeHealthRequest,
  type ControllerGetVolumeHealthResponse,
  VolumeHealthErrorType as Status,
} from "@diskmesh/api/csi";
import { needFields } from "../model/required-fields.js";
import type { ControllerContext } from "./context.js";
import { volumeDisk } from "./volume-disk.js";

/** Code of the trouble with which no node can use the disk; with any other one, a node can or will. */
const NO_NODE = "DEVICE_IN_TROUBLE";

/** Returns the trouble that the disk-registry reports of the volume's disk. */
export async function volumeHealth(
  context: ControllerContext,
  { volumeId }: ControllerGetVolumeHealthRequest,
): Promise<ControllerGetVolumeHealthResponse> {
  needFields({ volume_id: volumeId });
  await volumeDisk(context, volumeId);
  const trouble = await context.disks.trouble(volumeId);
  if (trouble === undefined) return { volumeHealth: { volumeId, healthStatuses: [] } };
  const { code, sentence: message } = trouble;
  const status = code === NO_NODE ? Status.INACCESSIBLE : Status.DEGRADED;
  return { volumeHealth: { volumeId, healthStatuses: [{ status, reason: camelCase(code), message }] } };
}

/** CSI wants `DeviceInTrouble`, not `DEVICE_IN_TROUBLE`. */
function camelCase(code: string): string {
  return code.toLowerCase().replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
