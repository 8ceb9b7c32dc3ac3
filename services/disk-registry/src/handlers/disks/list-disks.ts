import type { ListDisksRequest, ListDisksResponse } from "@diskmesh/api/registry";
import { parseHostId } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../../calls/context.js";
import { describeDisk } from "../../calls/device-description.js";

export async function listDisks(
  context: Context,
  request: ListDisksRequest,
  call: CallContext,
): Promise<ListDisksResponse> {
  const hostId = request.hostId === "" ? undefined : parseHostId(request.hostId);
  const { items, nextPageToken } = await context.lists.page(request, call, {
    what: "disks",
    begin: ({ disks }) => (hostId === undefined ? disks.snapshot() : disks.snapshot("byPublicationHost", hostId)),
    keyOf: (disk) => disk.diskId,
    describe: (tables, disk) => describeDisk(context, tables, disk),
  });
  return { disks: [...items], nextPageToken };
}
