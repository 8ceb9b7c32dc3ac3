import type { GetDeviceRequest, GetDeviceResponse } from "@diskmesh/api/registry";
import { parseDeviceId } from "@diskmesh/domain";
import type { Context } from "../../calls/context.js";
import { describeDevice } from "../../calls/device-description.js";
import { noDevice } from "../../model/devices/device-selection.js";

export async function getDevice(context: Context, request: GetDeviceRequest): Promise<GetDeviceResponse> {
  const deviceId = parseDeviceId(request.deviceId);
  const device = await context.tablet.read((tables) => {
    const known = tables.devices.get(deviceId);
    if (known === undefined) throw noDevice(tables, deviceId);
    return describeDevice(context, tables, known);
  });
  return { device };
}
