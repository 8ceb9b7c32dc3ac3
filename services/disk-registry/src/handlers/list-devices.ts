import type { ListDevicesRequest, ListDevicesResponse } from "@diskmesh/api/registry";
import { parseHostId, parseOptionalName } from "@diskmesh/domain";
import type { Context } from "../context.js";
import type { Device } from "../model/schema.js";
import { parsePage, takePage } from "../paging.js";
import { attachStateOf, deviceMessage } from "../wire.js";

export async function listDevices(context: Context, request: ListDevicesRequest): Promise<ListDevicesResponse> {
  const { tablet, leader, config } = context;
  const hostId = request.hostId === "" ? undefined : parseHostId(request.hostId);
  const state = attachStateOf(request.attachState);
  const pool = parseOptionalName("pool", request.pool);
  const page = parsePage(request, config.paging);
  const matches = (device: Device): boolean =>
    (state === undefined || device.attachState === state) && (pool === undefined || device.pool === pool);
  const found = await tablet.read(({ devices }) => {
    const candidates = hostId === undefined ? devices.entries(page) : devices.by("byHost", hostId, page);
    return takePage(candidates, (device) => device.deviceId, matches, page, config.paging);
  });
  return { devices: found.items.map((device) => deviceMessage(device, leader)), nextPageToken: found.nextPageToken };
}
