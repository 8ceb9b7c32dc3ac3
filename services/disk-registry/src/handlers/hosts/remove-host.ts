import type { RemoveHostRequest, RemoveHostResponse } from "@diskmesh/api/registry";
import { parseHostId } from "@diskmesh/domain";
import type { ChangeContext } from "../../calls/context.js";
import { removalCall } from "../../calls/removal-call.js";
import { runAction } from "../../calls/run-action.js";
import { devicesOfHost } from "../../model/devices/device-selection.js";
import * as model from "../../model/hosts/remove-action.js";

export async function removeHost(context: ChangeContext, request: RemoveHostRequest): Promise<RemoveHostResponse> {
  const hostId = parseHostId(request.hostId);
  const call = removalCall(context, request.keepData);
  const result = await runAction(
    context,
    request.dryRun,
    (tx) => model.removeHost(tx, hostId, call),
    (tables) => devicesOfHost(tables, hostId),
  );
  return { result };
}
