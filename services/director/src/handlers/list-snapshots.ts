import type { ListSnapshotsRequest, ListSnapshotsResponse } from "@diskmesh/api/director";
import { parseOptionalName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { TaskContext } from "../context.js";
import { snapshotKey } from "../model/snapshot.js";
import { encodeSnapshot } from "../wire.js";

export async function listSnapshots(
  { lists }: TaskContext,
  request: ListSnapshotsRequest,
  call: CallContext,
): Promise<ListSnapshotsResponse> {
  const deployment = parseOptionalName("deployment", request.deployment);
  const { items, nextPageToken } = await lists.page(request, call, {
    what: "snapshots",
    begin: ({ snapshots }) =>
      deployment === undefined ? snapshots.snapshot() : snapshots.snapshot("byDeployment", deployment),
    keyOf: snapshotKey,
    // Until then nobody knows whether it was taken.
    matches: (snapshot) => snapshot.snapshotCid !== "",
    describe: (_, snapshot) => encodeSnapshot(snapshot),
  });
  return { snapshots: [...items], nextPageToken };
}
