import type { UnpublishDiskRequest, UnpublishDiskResponse } from "@diskmesh/api/registry";
import { parseDiskId } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { ChangeContext } from "../../calls/context.js";
import { describeChangedDisk } from "../../calls/device-description.js";
import { waitForPublication } from "../../calls/wait-for-publication.js";
import { requestUnpublishFromVm } from "../../model/disks/host-assignment.js";
import { requestUnpublish, unpublishProgress } from "../../model/disks/publications.js";
import { parsePublicationTarget } from "../../requests/publication-target.js";

export async function unpublishDisk(
  context: ChangeContext,
  request: UnpublishDiskRequest,
  call: CallContext,
): Promise<UnpublishDiskResponse> {
  const { tablet, workers } = context;
  const diskId = parseDiskId(request.diskId);
  const target = parsePublicationTarget(request);
  const reached = await tablet.transact((tx) => {
    const { progress, disk } =
      target && "vmCid" in target
        ? requestUnpublishFromVm(tx, diskId, target.vmCid)
        : requestUnpublish(tx, diskId, target?.hostId);
    return progress === "reached" ? describeChangedDisk(context, tx, disk) : undefined;
  });
  if (reached !== undefined) return { disk: reached };
  workers.wakeDisk(diskId);
  return { disk: await waitForPublication(context, call, diskId, (tables) => unpublishProgress(tables, diskId)) };
}
