import type { ListDisksRequest, ListDisksResponse } from "@diskmesh/api/registry";
import { parseHostId } from "@diskmesh/domain";
import { pageOf } from "@diskmesh/rpc";
import type { Context } from "../../calls/context.js";
import { describeDisk } from "../../calls/device-description.js";

export async function listDisks(context: Context, request: ListDisksRequest): Promise<ListDisksResponse> {
  const hostId = request.hostId === "" ? undefined : parseHostId(request.hostId);
  const { items, nextPageToken } = await pageOf(context.tablet, request, {
    what: "disks",
    rows: ({ disks }, from) =>
      hostId === undefined ? disks.entries(from) : disks.by("byPublicationHost", hostId, from),
    keyOf: (disk) => disk.diskId,
    describe: (tables, disk) => describeDisk(context, tables, disk),
  });
  return { disks: [...items], nextPageToken };
}
