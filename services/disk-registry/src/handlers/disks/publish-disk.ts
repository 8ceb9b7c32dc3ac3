import type { PublishDiskRequest, PublishDiskResponse } from "@diskmesh/api/registry";
import { type DiskId, type HostId, parseDiskId, parseHostId } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { ChangeContext } from "../../calls/context.js";
import { waitForPublication } from "../../calls/wait-for-publication.js";
import { requireHostOfVm } from "../../model/disks/host-assignment.js";
import { publishProgress, requestPublish, unpublishProgress } from "../../model/disks/publications.js";
import { parsePublicationTarget } from "../../requests/publication-target.js";
import { silenceRuleOf } from "../../requests/wire.js";

export async function publishDisk(
  context: ChangeContext,
  request: PublishDiskRequest,
  call: CallContext,
): Promise<PublishDiskResponse> {
  const { tablet, workers, liveness } = context;
  const diskId = parseDiskId(request.diskId);
  const target = parsePublicationTarget(request) ?? { hostId: parseHostId(request.hostId) };
  const { readOnly } = request;
  const onHostSilence = silenceRuleOf(request.onHostSilence);
  const vmCid = "vmCid" in target ? target.vmCid : "";
  const options = { whySuspected: liveness.whySuspected, onHostSilence, readOnly, vmCid };
  for (;;) {
    const { progress, hostId } = await tablet.transact((tx) => {
      const hostId = "vmCid" in target ? requireHostOfVm(tx, target.vmCid).hostId : target.hostId;
      return { hostId, progress: requestPublish(tx, diskId, hostId, options).progress };
    });
    workers.wakeDisk(diskId);
    if (progress !== "busy") return { disk: await whenPublished(context, call, diskId, hostId) };
    await waitForPublication(context, call, diskId, (tables) => unpublishProgress(tables, diskId));
  }
}

function whenPublished(context: ChangeContext, call: CallContext, diskId: DiskId, hostId: HostId) {
  return waitForPublication(context, call, diskId, (tables) => publishProgress(tables, diskId, hostId));
}
