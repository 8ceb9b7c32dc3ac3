import type { PurgeDeviceRequest, PurgeDeviceResponse } from "@diskmesh/api/registry";
import type { ChangeContext } from "../../calls/context.js";
import { runAction } from "../../calls/run-action.js";
import { namedDevices } from "../../model/devices/device-selection.js";
import * as model from "../../model/hosts/purge-action.js";
import { parseDeviceSelector } from "../../requests/requests.js";

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
