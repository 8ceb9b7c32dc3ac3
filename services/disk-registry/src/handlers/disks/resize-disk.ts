import type { ResizeDiskRequest, ResizeDiskResponse } from "@diskmesh/api/registry";
import { parseDiskId, parseSizeBytes } from "@diskmesh/domain";
import type { ChangeContext } from "../../calls/context.js";
import { describeDisk } from "../../calls/device-description.js";
import { resizeDisk as resize } from "../../model/disks/disks.js";

export async function resizeDisk(context: ChangeContext, request: ResizeDiskRequest): Promise<ResizeDiskResponse> {
  const { tablet, limits, liveness } = context;
  const now = { draw: context.random(), whySuspected: liveness.whySuspected, mayYetBeHeard: liveness.mayYetBeHeard };
  const diskId = parseDiskId(request.diskId);
  const sizeBytes = parseSizeBytes("size_bytes", request.sizeBytes);
  const disk = await tablet.transact((tx) => describeDisk(context, tx, resize(tx, diskId, sizeBytes, limits, now)));
  return { disk };
}
