import type { GetDeviceRequest, GetDeviceResponse } from "@diskmesh/api/registry";
import { NotFoundError, parseDeviceId } from "@diskmesh/domain";
import type { Context } from "../../calls/context.js";
import { describeDevice } from "../../calls/device-description.js";

export async function getDevice(context: Context, request: GetDeviceRequest): Promise<GetDeviceResponse> {
  const deviceId = parseDeviceId(request.deviceId);
  const device = await context.tablet.read((tables) => {
    const known = tables.devices.get(deviceId);
    return known && describeDevice(context, tables, known);
  });
  if (device === undefined) {
    throw new NotFoundError(`there is no device ${deviceId}: no agent has reported it`, {
      about: { device_id: deviceId },
    });
  }
  return { device };
}
