import type { ListDevicesRequest, ListDevicesResponse } from "@diskmesh/api/registry";
import { parseDeviceId } from "@diskmesh/domain";
import { parsePage, takePage } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { describeDevice } from "../requests/device-description.js";
import { parseDeviceFilter } from "../requests/device-filter.js";

export async function listDevices(context: Context, request: ListDevicesRequest): Promise<ListDevicesResponse> {
  const { tablet, config } = context;
  const { hostId, matches } = parseDeviceFilter(request);
  const page = parsePage(request, config.paging, (key) => parseDeviceId(key, "page_token"));
  return tablet.read((tables) => {
    const { devices } = tables;
    const candidates = hostId === undefined ? devices.entries(page) : devices.by("byHost", hostId, page);
    const found = takePage(candidates, (device) => device.deviceId, page, config.paging, matches);
    return {
      devices: found.items.map((device) => describeDevice(context, tables, device)),
      nextPageToken: found.nextPageToken,
    };
  });
}
