import type { PublishDiskRequest, PublishDiskResponse } from "@diskmesh/api/registry";
import { parseDiskId, parseHostId } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { ChangeContext } from "../context.js";
import { publishProgress, requestPublish, unpublishProgress } from "../model/publications.js";
import { waitForPublication } from "../requests/wait-for-publication.js";
import { silenceRuleOf } from "../requests/wire.js";

export async function publishDisk(
  context: ChangeContext,
  request: PublishDiskRequest,
  call: CallContext,
): Promise<PublishDiskResponse> {
  const { tablet, workers, liveness } = context;
  const diskId = parseDiskId(request.diskId);
  const hostId = parseHostId(request.hostId);
  const options = { whySuspected: liveness.whySuspected, onHostSilence: silenceRuleOf(request.onHostSilence) };
  for (;;) {
    const { progress } = await tablet.transact((tx) => requestPublish(tx, diskId, hostId, options));
    workers.wakeDisk(diskId);
    if (progress !== "busy") break;
    await waitForPublication(context, call, diskId, (tables) => unpublishProgress(tables, diskId));
  }
  return { disk: await waitForPublication(context, call, diskId, (tables) => publishProgress(tables, diskId, hostId)) };
}
