import type { ResizeDiskRequest, ResizeDiskResponse } from "@diskmesh/api/registry";
import { parseDiskId, parseSizeBytes } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { ChangeContext } from "../../calls/context.js";
import { makingRoom } from "../../calls/making-room.js";
import { waitForPublication } from "../../calls/wait-for-publication.js";
import { resizeDisk as resize } from "../../model/disks/disks.js";
import { changeProgress } from "../../model/disks/export-changes.js";
import { diskLimits } from "../../requests/limits.js";

/** Enlarges the disk, and waits until the host of a published disk serves it with the new size. */
export async function resizeDisk(
  context: ChangeContext,
  request: ResizeDiskRequest,
  call: CallContext,
): Promise<ResizeDiskResponse> {
  const { tablet, workers, liveness } = context;
  const now = { draw: context.random(), whySuspected: liveness.whySuspected, mayYetBeHeard: liveness.mayYetBeHeard };
  const diskId = parseDiskId(request.diskId);
  const sizeBytes = parseSizeBytes("size_bytes", request.sizeBytes);
  const { publication } = await makingRoom(context, () =>
    tablet.transact((tx) => resize(tx, diskId, sizeBytes, diskLimits(context), now)),
  );
  workers.wakeDisk(diskId);
  return {
    disk: await waitForPublication(context, call, diskId, (tables) =>
      changeProgress(tables, diskId, publication?.hostId),
    ),
  };
}
