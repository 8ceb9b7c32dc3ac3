import type { RemoveDeviceRequest, RemoveDeviceResponse } from "@diskmesh/api/registry";
import type { ChangeContext } from "../context.js";
import { namedDevices } from "../model/device-selection.js";
import * as model from "../model/remove-action.js";
import { removalCall } from "../requests/removal-call.js";
import { parseDeviceSelector } from "../requests/requests.js";
import { runAction } from "../requests/run-action.js";

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
