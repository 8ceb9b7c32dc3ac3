import type { DeleteDiskRequest, DeleteDiskResponse } from "@diskmesh/api/registry";
import { parseDiskId } from "@diskmesh/domain";
import type { ChangeContext } from "../../calls/context.js";
import { deleteDisk as deleteFrom } from "../../model/disks/disks.js";

export async function deleteDisk(
  { tablet, workers }: ChangeContext,
  request: DeleteDiskRequest,
): Promise<DeleteDiskResponse> {
  const diskId = parseDiskId(request.diskId);
  const freed = await tablet.transact((tx) => deleteFrom(tx, diskId));
  workers.wakeErase(freed);
  return {};
}
