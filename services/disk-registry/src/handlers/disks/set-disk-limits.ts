import type { SetDiskLimitsRequest, SetDiskLimitsResponse } from "@diskmesh/api/registry";
import { parseDiskId, parseIoLimits } from "@diskmesh/domain";
import type { ChangeContext } from "../../calls/context.js";
import { describeChangedDisk } from "../../calls/device-description.js";
import { setDiskLimits as setLimits } from "../../model/disks/export-changes.js";

export async function setDiskLimits(
  context: ChangeContext,
  request: SetDiskLimitsRequest,
): Promise<SetDiskLimitsResponse> {
  const diskId = parseDiskId(request.diskId);
  const limits = parseIoLimits(request.limits);
  const disk = await context.tablet.transact((tx) => describeChangedDisk(context, tx, setLimits(tx, diskId, limits)));
  context.workers.wakeDisk(diskId);
  return { disk };
}
