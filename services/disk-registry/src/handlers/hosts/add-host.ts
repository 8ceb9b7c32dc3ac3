import type { AddHostRequest, AddHostResponse } from "@diskmesh/api/registry";
import { parseHostId } from "@diskmesh/domain";
import type { ChangeContext } from "../../calls/context.js";
import { addCall } from "../../calls/removal-call.js";
import { runAction } from "../../calls/run-action.js";
import { devicesOfHost } from "../../model/devices/device-selection.js";
import * as model from "../../model/hosts/add-action.js";

export async function addHost(context: ChangeContext, request: AddHostRequest): Promise<AddHostResponse> {
  const hostId = parseHostId(request.hostId);
  const result = await runAction(
    context,
    request.dryRun,
    (tx) => model.addHost(tx, hostId, addCall(context, request)),
    (tables) => devicesOfHost(tables, hostId),
  );
  return { result };
}
