import type { GetHostRequest, GetHostResponse } from "@diskmesh/api/registry";
import { NotFoundError, parseHostId } from "@diskmesh/domain";
import type { Context } from "../../calls/context.js";
import { describeHost } from "../../calls/device-description.js";

export async function getHost(context: Context, request: GetHostRequest): Promise<GetHostResponse> {
  const hostId = parseHostId(request.hostId);
  const host = await context.tablet.read((tables) => {
    const known = tables.hosts.get(hostId);
    return known && describeHost(context, tables, known);
  });
  if (host === undefined) {
    throw new NotFoundError(`host ${hostId} never registered`, { about: { host_id: hostId } });
  }
  return { host };
}
