import type { ListDisksRequest, ListDisksResponse } from "@diskmesh/api/director";
import { parseOptionalName } from "@diskmesh/domain";
import type { Context } from "../context.js";
import { encodeDisk } from "../wire.js";
import { pageOf, parsePageSize, refuseUnlessEnabled } from "./parse.js";

export async function listDisks(context: Context, request: ListDisksRequest): Promise<ListDisksResponse> {
  const deployment = parseOptionalName("deployment", request.deployment);
  const size = parsePageSize(context, request.pageSize);
  const after = parseOptionalName("page_token", request.pageToken);
  refuseUnlessEnabled(context);
  const read = await context.tablet.read(({ disks }) => {
    const options = { after, limit: size + 1 };
    return [...(deployment === undefined ? disks.entries(options) : disks.by("byDeployment", deployment, options))];
  });
  const { items, nextPageToken } = pageOf(read, size, (disk) => disk.name);
  return { disks: items.map(encodeDisk), nextPageToken };
}
