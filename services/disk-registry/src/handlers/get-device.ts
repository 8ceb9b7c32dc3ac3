import type { GetDeviceRequest, GetDeviceResponse } from "@diskmesh/api/registry";
import { NotFoundError, parseDeviceId } from "@diskmesh/domain";
import type { Context } from "../context.js";
import { deviceMessage } from "../wire.js";

export async function getDevice({ tablet, leader }: Context, request: GetDeviceRequest): Promise<GetDeviceResponse> {
  const deviceId = parseDeviceId(request.deviceId);
  const device = await tablet.read((tables) => tables.devices.get(deviceId));
  if (device === undefined) {
    throw new NotFoundError(`no agent reported device ${deviceId}`, { about: { device_id: deviceId } });
  }
  return { device: deviceMessage(device, leader) };
}
