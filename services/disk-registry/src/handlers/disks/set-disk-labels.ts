import type { SetDiskLabelsRequest, SetDiskLabelsResponse } from "@diskmesh/api/registry";
import { parseDiskId } from "@diskmesh/domain";
import type { ChangeContext } from "../../calls/context.js";
import { describeChangedDisk } from "../../calls/device-description.js";
import { setDiskLabels as setLabels } from "../../model/disks/disks.js";
import { requireDisk } from "../../model/disks/publications.js";
import { requireSameLabels } from "../../requests/labels-etag.js";
import { parseLabels } from "../../requests/requests.js";

export async function setDiskLabels(
  context: ChangeContext,
  request: SetDiskLabelsRequest,
): Promise<SetDiskLabelsResponse> {
  const diskId = parseDiskId(request.diskId);
  const labels = parseLabels(request.labels, context.limits);
  const disk = await context.tablet.transact((tx) => {
    requireSameLabels(requireDisk(tx, diskId), request.labelsEtag);
    return describeChangedDisk(context, tx, setLabels(tx, diskId, labels));
  });
  return { disk };
}
