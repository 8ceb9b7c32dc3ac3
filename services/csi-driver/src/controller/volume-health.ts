import {
  type ControllerGetVolumeHealthRequest,
  type ControllerGetVolumeHealthResponse,
  VolumeHealthErrorType as Status,
} from "@diskmesh/api/csi";
import { needFields } from "../model/required-fields.js";
import type { ControllerContext } from "./context.js";
import { volumeDisk } from "./volume-disk.js";

/** Codes of the troubles with which the volume's user cannot use the disk; with any other one, a node can or will. */
const UNUSABLE: ReadonlySet<string> = new Set(["DEVICE_IN_TROUBLE", "UNUSABLE_ON_HOST"]);

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
  const status = UNUSABLE.has(code) ? Status.INACCESSIBLE : Status.DEGRADED;
  return { volumeHealth: { volumeId, healthStatuses: [{ status, reason: camelCase(code), message }] } };
}

/** CSI wants `DeviceInTrouble`, not `DEVICE_IN_TROUBLE`. */
function camelCase(code: string): string {
  return code.toLowerCase().replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
