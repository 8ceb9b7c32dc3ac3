import type { CancelMoveRequest, CancelMoveResponse } from "@diskmesh/api/registry";
import { parseDiskId } from "@diskmesh/domain";
import type { ChangeContext } from "../../calls/context.js";
import { describeChangedDisk } from "../../calls/device-description.js";
import { cancelDiskMoves } from "../../model/disks/move-disk.js";

export async function cancelMove(context: ChangeContext, request: CancelMoveRequest): Promise<CancelMoveResponse> {
  const { tablet } = context;
  const diskId = parseDiskId(request.diskId);
  return { disk: await tablet.transact((tx) => describeChangedDisk(context, tx, cancelDiskMoves(tx, diskId))) };
}
