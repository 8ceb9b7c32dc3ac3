import type { AddDeviceRequest, AddDeviceResponse } from "@diskmesh/api/registry";
import type { ChangeContext } from "../../calls/context.js";
import { addCall } from "../../calls/removal-call.js";
import { runAction } from "../../calls/run-action.js";
import { namedDevices } from "../../model/devices/device-selection.js";
import * as model from "../../model/hosts/add-action.js";
import { parseDeviceSelector } from "../../requests/requests.js";

export async function addDevice(context: ChangeContext, request: AddDeviceRequest): Promise<AddDeviceResponse> {
  const selector = parseDeviceSelector(request);
  const result = await runAction(
    context,
    request.dryRun,
    (tx) =>
      model.addDevice(tx, selector, { ...addCall(context, request), acceptUnidentified: request.acceptUnidentified }),
    (tables) => namedDevices(tables, selector),
  );
  return { result };
}
