import type { ReplaceDeviceRequest, ReplaceDeviceResponse } from "@diskmesh/api/registry";
import { parseDeviceId, parseDiskId } from "@diskmesh/domain";
import type { ChangeContext } from "../../calls/context.js";
import { describeChangedDisk } from "../../calls/device-description.js";
import { replaceDevice as move } from "../../model/disks/move-disk.js";

export async function replaceDevice(
  context: ChangeContext,
  request: ReplaceDeviceRequest,
): Promise<ReplaceDeviceResponse> {
  const { tablet, clock } = context;
  const diskId = parseDiskId(request.diskId);
  const deviceId = parseDeviceId(request.deviceId);
  return {
    disk: await tablet.transact((tx) => describeChangedDisk(context, tx, move(tx, diskId, deviceId, clock.nowMs()))),
  };
}
