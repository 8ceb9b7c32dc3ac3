import type { ListOwedRemovalsRequest, ListOwedRemovalsResponse } from "@diskmesh/api/director";
import { pageOf } from "@diskmesh/rpc";
import { owedRemovalKey } from "../store/owed-removal.js";
import type { TaskContext } from "../tasks/context.js";
import { encodeOwedRemoval } from "./wire.js";

export async function listOwedRemovals(
  { tablet }: TaskContext,
  request: ListOwedRemovalsRequest,
): Promise<ListOwedRemovalsResponse> {
  const { items, nextPageToken } = await pageOf(tablet, request, {
    what: "owed removals",
    rows: ({ owedRemovals }, from) => owedRemovals.entries(from),
    keyOf: owedRemovalKey,
    describe: (_, owed) => encodeOwedRemoval(owed),
  });
  return { owedRemovals: [...items], nextPageToken };
}
