import type { ListLocksRequest, ListLocksResponse } from "@diskmesh/api/director";
import { pageOfItems } from "@diskmesh/rpc";
import type { LockKeeper } from "./lock-keeper.js";
import { encodeLock } from "./wire.js";

export async function listLocks(
  { locks }: { readonly locks: Pick<LockKeeper, "list"> },
  request: ListLocksRequest,
): Promise<ListLocksResponse> {
  const { items, nextPageToken } = pageOfItems(request, locks.list(), {
    what: "locks",
    keyOf: ({ type, resource }) => `${type} ${resource}`,
  });
  return { locks: items.map(encodeLock), nextPageToken };
}
