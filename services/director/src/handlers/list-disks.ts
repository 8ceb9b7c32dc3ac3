import type { ListDisksRequest, ListDisksResponse } from "@diskmesh/api/director";
import { parseName, parseOptionalName } from "@diskmesh/domain";
import { parsePage, takePage } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeDisk } from "../wire.js";
import { refuseUnlessEnabled } from "./parse.js";

export async function listDisks(context: Context, request: ListDisksRequest): Promise<ListDisksResponse> {
  const deployment = parseOptionalName("deployment", request.deployment);
  const { paging } = context.config;
  const page = parsePage(request, paging, (key) => parseName("page_token", key));
  refuseUnlessEnabled(context);
  const { items, nextPageToken } = await context.tablet.read(({ disks }) => {
    const candidates = deployment === undefined ? disks.entries(page) : disks.by("byDeployment", deployment, page);
    return takePage(candidates, (disk) => disk.name, page, paging);
  });
  return { disks: items.map(encodeDisk), nextPageToken };
}
