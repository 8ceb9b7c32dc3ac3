import type { ListPossibleOrphansRequest, ListPossibleOrphansResponse } from "@diskmesh/api/director";
import type { CallContext } from "@diskmesh/rpc";
import type { TaskContext } from "../context.js";
import { encodePossibleOrphan } from "../wire.js";

export async function listPossibleOrphans(
  { lists }: TaskContext,
  request: ListPossibleOrphansRequest,
  call: CallContext,
): Promise<ListPossibleOrphansResponse> {
  const { items, nextPageToken } = await lists.page(request, call, {
    what: "possible orphans",
    begin: ({ possibleOrphans }) => possibleOrphans.snapshot(),
    keyOf: (orphan) => orphan.token,
    describe: (_, orphan) => encodePossibleOrphan(orphan),
  });
  return { possibleOrphans: [...items], nextPageToken };
}
