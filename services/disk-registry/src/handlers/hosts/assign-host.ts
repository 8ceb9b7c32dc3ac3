import type { AssignHostRequest, AssignHostResponse } from "@diskmesh/api/registry";
import { parseDiskId, parseId, parseOptionalName } from "@diskmesh/domain";
import type { ChangeContext } from "../../calls/context.js";
import { describeChangedHost } from "../../calls/device-description.js";
import { assignHost as assign } from "../../model/disks/host-assignment.js";
import { requireAtMost } from "../../requests/requests.js";

const MAX_DISKS = 1_000;

export async function assignHost(context: ChangeContext, request: AssignHostRequest): Promise<AssignHostResponse> {
  const { tablet, clock, liveness } = context;
  const vmCid = parseId("vm_cid", request.vmCid);
  const az = parseOptionalName("az", request.az) ?? "";
  requireAtMost("disk_ids", request.diskIds, MAX_DISKS);
  const diskIds = request.diskIds.map((diskId) => parseDiskId(diskId, "disk_ids"));
  const host = await tablet.transact((tx) =>
    describeChangedHost(context, assign(tx, { vmCid, az, diskIds }, clock.nowMs(), liveness.whySuspected)),
  );
  return { host };
}
