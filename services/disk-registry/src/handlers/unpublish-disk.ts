import type { UnpublishDiskRequest, UnpublishDiskResponse } from "@diskmesh/api/registry";
import { parseDiskId, parseHostId } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { ChangeContext } from "../context.js";
import { requestUnpublish, unpublishProgress } from "../model/publications.js";
import { waitForPublication } from "../requests/wait-for-publication.js";
import { diskMessage } from "../requests/wire.js";

export async function unpublishDisk(
  context: ChangeContext,
  request: UnpublishDiskRequest,
  call: CallContext,
): Promise<UnpublishDiskResponse> {
  const { tablet, workers } = context;
  const diskId = parseDiskId(request.diskId);
  const hostId = request.hostId === "" ? undefined : parseHostId(request.hostId);
  const step = await tablet.transact((tx) => {
    const { progress, disk } = requestUnpublish(tx, diskId, hostId);
    return { progress, disk: diskMessage(tx, disk) };
  });
  if (step.progress === "reached") return { disk: step.disk };
  workers.wakeDisk(diskId);
  return { disk: await waitForPublication(context, call, diskId, (tables) => unpublishProgress(tables, diskId)) };
}
