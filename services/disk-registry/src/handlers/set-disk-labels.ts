import type { SetDiskLabelsRequest, SetDiskLabelsResponse } from "@diskmesh/api/registry";
import { parseDiskId } from "@diskmesh/domain";
import type { ChangeContext } from "../context.js";
import { setDiskLabels as setLabels } from "../model/disks.js";
import { parseLabels } from "../requests/requests.js";
import { diskMessage } from "../requests/wire.js";

export async function setDiskLabels(
  { tablet, config }: ChangeContext,
  request: SetDiskLabelsRequest,
): Promise<SetDiskLabelsResponse> {
  const diskId = parseDiskId(request.diskId);
  const labels = parseLabels(request.labels, config.limits);
  return { disk: await tablet.transact((tx) => diskMessage(tx, setLabels(tx, diskId, labels))) };
}
