import type { ListDevicesRequest, ListDevicesResponse } from "@diskmesh/api/registry";
import { pageOf } from "@diskmesh/rpc";
import type { Context } from "../../calls/context.js";
import { describeDevice } from "../../calls/device-description.js";
import { SortedSharers } from "../../model/devices/sorted-sharers.js";
import { parseDeviceFilter } from "../../requests/device-filter.js";

export async function listDevices(context: Context, request: ListDevicesRequest): Promise<ListDevicesResponse> {
  const { hostId, matches } = parseDeviceFilter(request);
  let sharers: SortedSharers | undefined;
  const { items, nextPageToken } = await pageOf(context.tablet, request, {
    what: "devices",
    rows: ({ devices }, from) => (hostId === undefined ? devices.entries(from) : devices.by("byHost", hostId, from)),
    keyOf: (device) => device.deviceId,
    matches,
    describe: (tables, device) => {
      sharers ??= new SortedSharers(tables, context.config.serialNumbersOfMany);
      return describeDevice(context, tables, device, sharers.find);
    },
  });
  return { devices: [...items], nextPageToken };
}
