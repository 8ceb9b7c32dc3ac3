import type { RemoveHostRequest, RemoveHostResponse } from "@diskmesh/api/registry";
import { parseHostId } from "@diskmesh/domain";
import type { Context } from "../context.js";
import { removalLimits } from "../limits.js";
import { devicesOfHost } from "../model/device-selection.js";
import * as model from "../model/remove-action.js";
import { runAction } from "../run-action.js";

export async function removeHost(context: Context, request: RemoveHostRequest): Promise<RemoveHostResponse> {
  const hostId = parseHostId(request.hostId);
  const { clock, config } = context;
  const limits = removalLimits(config);
  const result = await runAction(
    context,
    request.dryRun,
    (tx) => model.removeHost(tx, hostId, limits, clock.nowMs()),
    (tables) => devicesOfHost(tables, hostId),
  );
  return { result };
}
