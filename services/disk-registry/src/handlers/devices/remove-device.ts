import type { RemoveDeviceRequest, RemoveDeviceResponse } from "@diskmesh/api/registry";
import type { ChangeContext } from "../../calls/context.js";
import { removalCall } from "../../calls/removal-call.js";
import { runAction } from "../../calls/run-action.js";
import { namedDevices } from "../../model/devices/device-selection.js";
import * as model from "../../model/hosts/remove-action.js";
import { parseDeviceSelector } from "../../requests/requests.js";

export async function removeDevice(
  context: ChangeContext,
  request: RemoveDeviceRequest,
): Promise<RemoveDeviceResponse> {
  const selector = parseDeviceSelector(request);
  const call = removalCall(context, request.keepData);
  const result = await runAction(
    context,
    request.dryRun,
    (tx) => model.removeDevice(tx, selector, call),
    (tables) => namedDevices(tables, selector),
  );
  return { result };
}
