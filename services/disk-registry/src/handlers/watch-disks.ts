import type { WatchDisksRequest, WatchDisksResponse } from "@diskmesh/api/registry";
import { parseHostId } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import type { RegistryTables } from "../model/schema.js";
import { watch } from "../requests/watch.js";
import { diskMessage } from "../requests/wire.js";
import { ON_HOST } from "../table-changes.js";

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
    matches: (disk) => hostId === undefined || disk.publication?.hostId === hostId,
    mayHaveMatched: () => true,
    expand: disksOf,
    changed: (tables, disk) => ({ $case: "disk" as const, value: diskMessage(tables, disk) }),
    removed: (diskId) => ({ $case: "removedDiskId" as const, value: diskId }),
  });
}

function disksOf({ devices }: RegistryTables, key: string): string[] {
  if (!key.startsWith(ON_HOST)) return [key];
  return Array.from(devices.by("usedByHost", key.slice(ON_HOST.length)), (device) => device.diskId);
}
