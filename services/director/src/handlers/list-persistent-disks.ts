import type { ListPersistentDisksRequest, ListPersistentDisksResponse } from "@diskmesh/api/director";
import { parseName, parseOptionalName } from "@diskmesh/domain";
import { parsePage, takePage } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import type { PersistentDisk } from "../model/persistent-disk.js";
import { encodePersistentDisk } from "../wire.js";

export async function listPersistentDisks(
  context: Context,
  request: ListPersistentDisksRequest,
): Promise<ListPersistentDisksResponse> {
  const deployment = parseOptionalName("deployment", request.deployment);
  const { paging } = context.config;
  const page = parsePage(request, paging, (key) => parseName("page_token", key));
  const matches = (disk: PersistentDisk) => !request.orphaned || disk.orphanedAtMs !== null;
  const { items, nextPageToken } = await context.tablet.read(({ persistentDisks }) => {
    const candidates =
      deployment === undefined ? persistentDisks.entries(page) : persistentDisks.by("byDeployment", deployment, page);
    return takePage(candidates, (disk) => disk.diskId, page, paging, matches);
  });
  return { disks: items.map(encodePersistentDisk), nextPageToken };
}
