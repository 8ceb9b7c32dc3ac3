import type { GetHostRequest, GetHostResponse } from "@diskmesh/api/registry";
import { NotFoundError, parseHostId } from "@diskmesh/domain";
import type { Context } from "../context.js";
import { hostMessage } from "../wire.js";

export async function getHost({ tablet, liveness }: Context, request: GetHostRequest): Promise<GetHostResponse> {
  const hostId = parseHostId(request.hostId);
  const host = await tablet.read((tables) => tables.hosts.get(hostId));
  if (host === undefined) {
    throw new NotFoundError(`host ${hostId} never registered`, { about: { host_id: hostId } });
  }
  return { host: hostMessage(host, liveness.lastHeardAtMs(hostId)) };
}
