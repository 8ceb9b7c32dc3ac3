import type { SetDiskLabelsRequest, SetDiskLabelsResponse } from "@diskmesh/api/registry";
import { parseDiskId } from "@diskmesh/domain";
import type { ChangeContext } from "../context.js";
import { setDiskLabels as setLabels } from "../model/disks.js";
import { describeDisk } from "../requests/device-description.js";
import { parseLabels } from "../requests/requests.js";

export async function setDiskLabels(
  context: ChangeContext,
  request: SetDiskLabelsRequest,
): Promise<SetDiskLabelsResponse> {
  const diskId = parseDiskId(request.diskId);
  const labels = parseLabels(request.labels, context.limits);
  const disk = await context.tablet.transact((tx) => describeDisk(context, tx, setLabels(tx, diskId, labels)));
  return { disk };
}
