import type { ListLocksResponse } from "@diskmesh/api/director";
import type { LockKeeper } from "./lock-keeper.js";
import { encodeLock } from "./wire.js";

export async function listLocks({ locks }: { readonly locks: Pick<LockKeeper, "list"> }): Promise<ListLocksResponse> {
  return { locks: locks.list().map(encodeLock) };
}
