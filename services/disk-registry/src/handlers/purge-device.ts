import type { PurgeDeviceRequest, PurgeDeviceResponse } from "@diskmesh/api/registry";
import type { ChangeContext } from "../context.js";
import { namedDevices } from "../model/device-selection.js";
import * as model from "../model/purge-action.js";
import { parseDeviceSelector } from "../requests/requests.js";
import { runAction } from "../requests/run-action.js";

export async function purgeDevice(context: ChangeContext, request: PurgeDeviceRequest): Promise<PurgeDeviceResponse> {
  const selector = parseDeviceSelector(request);
  const { clock } = context;
  const result = await runAction(
    context,
    request.dryRun,
    (tx) => model.purgeDevice(tx, selector, request.force, clock.nowMs()),
    (tables) => namedDevices(tables, selector),
  );
  return { result };
}
