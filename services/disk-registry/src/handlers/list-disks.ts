import type { ListDisksRequest, ListDisksResponse } from "@diskmesh/api/registry";
import { parseDiskId, parseHostId } from "@diskmesh/domain";
import { parsePage, takePage } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { diskMessage } from "../requests/wire.js";

export async function listDisks({ tablet, config }: Context, request: ListDisksRequest): Promise<ListDisksResponse> {
  const hostId = request.hostId === "" ? undefined : parseHostId(request.hostId);
  const page = parsePage(request, config.paging, (key) => parseDiskId(key, "page_token"));
  return tablet.read((tables) => {
    const candidates =
      hostId === undefined ? tables.disks.entries(page) : tables.disks.by("byPublicationHost", hostId, page);
    const found = takePage(candidates, (disk) => disk.diskId, page, config.paging);
    return { disks: found.items.map((disk) => diskMessage(tables, disk)), nextPageToken: found.nextPageToken };
  });
}
