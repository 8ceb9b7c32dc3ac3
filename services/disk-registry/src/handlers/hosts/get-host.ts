import type { GetHostRequest, GetHostResponse } from "@diskmesh/api/registry";
import { parseHostId } from "@diskmesh/domain";
import type { Context } from "../../calls/context.js";
import { describeHost } from "../../calls/device-description.js";
import { requireHost } from "../../model/devices/device-selection.js";

export async function getHost(context: Context, request: GetHostRequest): Promise<GetHostResponse> {
  const hostId = parseHostId(request.hostId);
  const host = await context.tablet.read((tables) => describeHost(context, tables, requireHost(tables, hostId)));
  return { host };
}
