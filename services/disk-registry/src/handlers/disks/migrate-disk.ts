import type { MigrateDiskRequest, MigrateDiskResponse } from "@diskmesh/api/registry";
import { parseDiskId, parseHostId } from "@diskmesh/domain";
import type { ChangeContext } from "../../calls/context.js";
import { describeChangedDisk } from "../../calls/device-description.js";
import { migrateDisk as move } from "../../model/disks/move-disk.js";

export async function migrateDisk(context: ChangeContext, request: MigrateDiskRequest): Promise<MigrateDiskResponse> {
  const { tablet, clock } = context;
  const diskId = parseDiskId(request.diskId);
  const hostId = request.hostId === "" ? "" : parseHostId(request.hostId);
  return {
    disk: await tablet.transact((tx) => describeChangedDisk(context, tx, move(tx, diskId, hostId, clock.nowMs()))),
  };
}
