import type { WatchDevicesRequest, WatchDevicesResponse } from "@diskmesh/api/registry";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../../calls/context.js";
import { describeDevice } from "../../calls/device-description.js";
import { watch } from "../../calls/watch.js";
import { parseDeviceFilter } from "../../requests/device-filter.js";

export async function* watchDevices(
  context: Context,
  request: WatchDevicesRequest,
  call: CallContext,
): AsyncGenerator<WatchDevicesResponse> {
  const { hostId, matches } = parseDeviceFilter(request);
  yield* watch(context, request, call, {
    what: "devices",
    candidates: ({ devices }, page) =>
      hostId === undefined ? devices.entries(page) : devices.by("byHost", hostId, page),
    get: ({ devices }, deviceId) => devices.get(deviceId),
    keyOf: (device) => device.deviceId,
    matches,
    mayHaveMatched: (device) => hostId === undefined || device.hostId === hostId,
    changed: (tables, device) => ({ $case: "device" as const, value: describeDevice(context, tables, device) }),
    removed: (deviceId) => ({ $case: "removedDeviceId" as const, value: deviceId }),
  });
}
