import type { WatchDisksRequest, WatchDisksResponse } from "@diskmesh/api/registry";
import { parseHostId } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../../calls/context.js";
import { describeDisk } from "../../calls/device-description.js";
import { watch } from "../../calls/watch.js";
import { isListed } from "../../model/disks/deleted-disks.js";

export async function* watchDisks(
  context: Context,
  request: WatchDisksRequest,
  call: CallContext,
): AsyncGenerator<WatchDisksResponse> {
  const hostId = request.hostId === "" ? undefined : parseHostId(request.hostId);
  yield* watch(context, request, call, {
    what: "disks",
    candidates: ({ disks }, page) =>
      hostId === undefined ? disks.entries(page) : disks.by("byPublicationHost", hostId, page),
    get: ({ disks }, diskId) => disks.get(diskId),
    keyOf: (disk) => disk.diskId,
    matches: (disk) =>
      isListed(disk, request.showDeleted) && (hostId === undefined || disk.publication?.hostId === hostId),
    mayHaveMatched: () => true,
    changed: (tables, disk) => ({ $case: "disk" as const, value: describeDisk(context, tables, disk) }),
    removed: (diskId) => ({ $case: "removedDiskId" as const, value: diskId }),
  });
}
