import type { ListDisksRequest, ListDisksResponse } from "@diskmesh/api/registry";
import { parseHostId } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { diskMessage } from "../requests/wire.js";

export async function listDisks(
  { lists }: Context,
  request: ListDisksRequest,
  call: CallContext,
): Promise<ListDisksResponse> {
  const hostId = request.hostId === "" ? undefined : parseHostId(request.hostId);
  const { items, nextPageToken } = await lists.page(request, call, {
    what: "disks",
    begin: ({ disks }) => (hostId === undefined ? disks.snapshot() : disks.snapshot("byPublicationHost", hostId)),
    keyOf: (disk) => disk.diskId,
    describe: diskMessage,
  });
  return { disks: [...items], nextPageToken };
}
