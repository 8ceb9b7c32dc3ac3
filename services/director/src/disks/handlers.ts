import type { ListOwedRemovalsRequest, ListOwedRemovalsResponse } from "@diskmesh/api/director";
import type { CallContext } from "@diskmesh/rpc";
import { owedRemovalKey } from "../store/owed-removal.js";
import type { TaskContext } from "../tasks/context.js";
import { encodeOwedRemoval } from "./wire.js";

export async function listOwedRemovals(
  { lists }: TaskContext,
  request: ListOwedRemovalsRequest,
  call: CallContext,
): Promise<ListOwedRemovalsResponse> {
  const { items, nextPageToken } = await lists.page(request, call, {
    what: "owed removals",
    begin: ({ owedRemovals }) => owedRemovals.snapshot(),
    keyOf: owedRemovalKey,
    describe: (_, owed) => encodeOwedRemoval(owed),
  });
  return { owedRemovals: [...items], nextPageToken };
}
