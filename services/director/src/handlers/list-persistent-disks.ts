import type { ListPersistentDisksRequest, ListPersistentDisksResponse } from "@diskmesh/api/director";
import { parseOptionalName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { TaskContext } from "../context.js";
import { encodePersistentDisk } from "../wire.js";

export async function listPersistentDisks(
  { lists }: TaskContext,
  request: ListPersistentDisksRequest,
  call: CallContext,
): Promise<ListPersistentDisksResponse> {
  const deployment = parseOptionalName("deployment", request.deployment);
  const { items, nextPageToken } = await lists.page(request, call, {
    what: "persistent disks",
    begin: ({ persistentDisks: disks }) =>
      deployment === undefined ? disks.snapshot() : disks.snapshot("byDeployment", deployment),
    keyOf: (disk) => disk.diskId,
    matches: (disk) => !request.orphaned || disk.orphanedAtMs !== null,
    describe: (_, disk) => encodePersistentDisk(disk),
  });
  return { disks: [...items], nextPageToken };
}
