import type { UndeleteDiskRequest, UndeleteDiskResponse } from "@diskmesh/api/registry";
import { parseDiskId } from "@diskmesh/domain";
import type { ChangeContext } from "../../calls/context.js";
import { describeChangedDisk } from "../../calls/device-description.js";
import { undeleteDisk as undelete } from "../../model/disks/deleted-disks.js";

export async function undeleteDisk(
  context: ChangeContext,
  request: UndeleteDiskRequest,
): Promise<UndeleteDiskResponse> {
  const diskId = parseDiskId(request.diskId);
  const disk = await context.tablet.transact((tx) => describeChangedDisk(context, tx, undelete(tx, diskId)));
  return { disk };
}
