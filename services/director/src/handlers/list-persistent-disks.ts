import type { ListPersistentDisksRequest, ListPersistentDisksResponse } from "@diskmesh/api/director";
import { parseOptionalName } from "@diskmesh/domain";
import type { Context } from "../context.js";
import type { PersistentDisk } from "../model/persistent-disk.js";
import { encodePersistentDisk } from "../wire.js";
import { pageOf, parsePageSize } from "./parse.js";

export async function listPersistentDisks(
  context: Context,
  request: ListPersistentDisksRequest,
): Promise<ListPersistentDisksResponse> {
  const deployment = parseOptionalName("deployment", request.deployment);
  const size = parsePageSize(context, request.pageSize);
  const after = parseOptionalName("page_token", request.pageToken);
  const read = await context.tablet.read(({ persistentDisks }) => {
    const all =
      deployment === undefined
        ? persistentDisks.entries({ after })
        : persistentDisks.by("byDeployment", deployment, { after });
    const found: PersistentDisk[] = [];
    for (const disk of all) {
      if (!request.orphaned || disk.orphanedAtMs !== null) found.push(disk);
      if (found.length > size) break;
    }
    return found;
  });
  const { items, nextPageToken } = pageOf(read, size, (disk) => disk.diskId);
  return { disks: items.map(encodePersistentDisk), nextPageToken };
}
