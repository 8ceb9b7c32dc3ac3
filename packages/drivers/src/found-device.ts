import { type DriverDevice, type DriverEnvironment, MethodError } from "@diskmesh/driver";

/** Returns the device with this id. Throws MethodError when the node has none. */
export async function foundDevice(environment: DriverEnvironment, deviceId: string): Promise<DriverDevice> {
  const devices = await environment.devices();
  const device = devices.find((each) => each.deviceId === deviceId);
  if (device === undefined) throw new MethodError("not_found", `the node has no device ${deviceId}`);
  return device;
}
