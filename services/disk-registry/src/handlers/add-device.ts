import type { AddDeviceRequest, AddDeviceResponse } from "@diskmesh/api/registry";
import type { ChangeContext } from "../context.js";
import * as model from "../model/add-action.js";
import { namedDevices } from "../model/device-selection.js";
import { addCall } from "../requests/removal-call.js";
import { parseDeviceSelector } from "../requests/requests.js";
import { runAction } from "../requests/run-action.js";

export async function addDevice(context: ChangeContext, request: AddDeviceRequest): Promise<AddDeviceResponse> {
  const selector = parseDeviceSelector(request);
  const result = await runAction(
    context,
    request.dryRun,
    (tx) => model.addDevice(tx, selector, { ...addCall(context), acceptUnidentified: request.acceptUnidentified }),
    (tables) => namedDevices(tables, selector),
  );
  return { result };
}
