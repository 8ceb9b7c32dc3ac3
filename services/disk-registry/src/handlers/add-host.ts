import type { AddHostRequest, AddHostResponse } from "@diskmesh/api/registry";
import { parseHostId } from "@diskmesh/domain";
import type { ChangeContext } from "../context.js";
import * as model from "../model/add-action.js";
import { devicesOfHost } from "../model/device-selection.js";
import { addCall } from "../requests/removal-call.js";
import { runAction } from "../requests/run-action.js";

export async function addHost(context: ChangeContext, request: AddHostRequest): Promise<AddHostResponse> {
  const hostId = parseHostId(request.hostId);
  const result = await runAction(
    context,
    request.dryRun,
    (tx) => model.addHost(tx, hostId, addCall(context)),
    (tables) => devicesOfHost(tables, hostId),
  );
  return { result };
}
