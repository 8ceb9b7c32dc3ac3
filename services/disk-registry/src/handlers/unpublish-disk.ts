import type { UnpublishDiskRequest, UnpublishDiskResponse } from "@diskmesh/api/registry";
import { parseDiskId } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { ChangeContext } from "../context.js";
import { requestUnpublishFromVm } from "../model/host-assignment.js";
import { requestUnpublish, unpublishProgress } from "../model/publications.js";
import { describeDisk } from "../requests/device-description.js";
import { parsePublicationTarget } from "../requests/publication-target.js";
import { waitForPublication } from "../requests/wait-for-publication.js";

export async function unpublishDisk(
  context: ChangeContext,
  request: UnpublishDiskRequest,
  call: CallContext,
): Promise<UnpublishDiskResponse> {
  const { tablet, workers } = context;
  const diskId = parseDiskId(request.diskId);
  const target = parsePublicationTarget(request);
  const step = await tablet.transact((tx) => {
    const { progress, disk } =
      target && "vmCid" in target
        ? requestUnpublishFromVm(tx, diskId, target.vmCid)
        : requestUnpublish(tx, diskId, target?.hostId);
    return { progress, disk: describeDisk(context, tx, disk) };
  });
  if (step.progress === "reached") return { disk: step.disk };
  workers.wakeDisk(diskId);
  return { disk: await waitForPublication(context, call, diskId, (tables) => unpublishProgress(tables, diskId)) };
}
