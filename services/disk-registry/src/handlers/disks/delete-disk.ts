import type { DeleteDiskRequest, DeleteDiskResponse } from "@diskmesh/api/registry";
import { parseDiskId } from "@diskmesh/domain";
import type { ChangeContext } from "../../calls/context.js";
import { deleteDisk as deleteFrom } from "../../model/disks/deleted-disks.js";
import { graceMsOf } from "../../requests/limits.js";

export async function deleteDisk(
  { tablet, workers, clock, config, doing }: ChangeContext,
  request: DeleteDiskRequest,
): Promise<DeleteDiskResponse> {
  const diskId = parseDiskId(request.diskId);
  const { skipGrace } = request;
  const { freed, untilMs } = await tablet.transact((tx) =>
    deleteFrom(tx, diskId, {
      by: doing.user,
      nowMs: clock.nowMs(),
      graceMsOf: (pool) => graceMsOf(config, pool),
      skipGrace,
    }),
  );
  workers.wakeErase(freed);
  return { purgeTime: untilMs === undefined ? undefined : new Date(untilMs) };
}
